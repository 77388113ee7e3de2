// The members of a tar archive (POSIX.1-2017, pax: "ustar Interchange Format" and "pax Header Block"; GNU
// tar's long names and sizes: gnu.org/software/tar/manual, "Basic Tar Format").
#pragma once
#include <string>
#include <vector>

#include "neurim/data/sources/parts.h"

namespace neurim {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0, size = 0;  ///< of its body in the archive
};

struct TarIndex {
  std::vector<TarMember> members;  ///< the whole regular files before any damage
  std::string damage;              ///< what is wrong and where; empty where all is right
  std::string fix;                 ///< what to do about it
};

/// Reads the headers and passes over the bodies. Damage ends the index and is not thrown.
TarIndex index_tar(const Bytes& archive);

}  // namespace neurim
