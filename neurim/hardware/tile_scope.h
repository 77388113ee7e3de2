// Matrix tiles (AMX) of a thread.
#pragma once

namespace neurim {

/// The tiles of this thread, while it lives: their shapes are set, and what another library left there is gone.
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
};

}  // namespace neurim
