// The records of an LMDB file.
#pragma once
#include <string>
#include <vector>

#include "neurim/data/sources/parts.h"

namespace neurim {

struct LmdbRecord {
  std::string key;
  std::uint64_t offset = 0, size = 0;  ///< of the value in the file
};

/// The records of the unnamed database, in the order of their keys, by the layout that the comments and
/// structures of LMDB 0.9's mdb.c define ("Page Format", MDB_meta, MDB_db, MDB_page, MDB_node), on 64-bit
/// little-endian machines. Reads keys and places alone. Throws Error(data) where the file is damaged.
std::vector<LmdbRecord> index_lmdb(const Bytes& file);

}  // namespace neurim
