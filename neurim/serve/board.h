// Runs as a page of this machine.
#pragma once
#include <memory>
#include <string>

#include "neurim/base/file.h"
#include "neurim/serve/http.h"

namespace neurim {

/// Answers the requests of the board's page: the runs below a folder, their curves, options and images. It only reads,
/// and of runs only what trainings and reports write. Every request needs the token; a first one with ?token=… gets it
/// as a cookie. Safe from many threads.
class Board {
 public:
  /// Throws Error(data) where the folder is not there.
  explicit Board(const fs::path& folder);
  ~Board();

  const std::string& token() const;  ///< 256 random bits, new for each object
  HttpReply answer(const HttpRequest& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace neurim
