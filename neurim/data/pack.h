// The packed file: a data set in one file, which is mapped into memory and read at random.
//
// Little-endian. A head (magic, version, fingerprint of the set), one record a sample (its head with a CRC-32
// of all that follows, its name, the row index of a JPEG, the bytes), a table (offset, label and split of
// each record), JSON (the names of the classes, the label sets of a multi-label set, and where there are
// any the weight and the group of each record), and a tail that says where those lie, with their CRC-32.
// JPEGs are stored coefficient for coefficient, with a restart marker after each row of blocks
// (formats/jpeg_rows.h), so that of a random part only the rows in question are read and decoded.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "neurim/data/dataset.h"

namespace neurim {

struct PackResult {
  std::int64_t samples = 0;          ///< in the file
  std::int64_t resumed = 0;          ///< of those, found finished in what an interrupted call had left
  bool begun_anew = false;           ///< an interrupted call had left something, but the set has changed since
  std::uint64_t bytes = 0;           ///< of the file
  std::vector<std::string> skipped;  ///< why samples are not in it; names them
};

/// Called with the number of samples done and of all; returning false stops, and the next call goes on there.
using PackProgress = std::function<bool(std::int64_t done, std::int64_t all)>;

/// Throws what pack throws before it writes anything.
void check_pack(const Dataset& dataset, const std::string& path);

/// Writes `path` by way of `path`.part, which an interrupted call leaves and the next one continues
/// when it is of the same set, whose files have neither another size nor a later time. A sample that cannot
/// be decoded is left out and named. Throws Error(resource) where the disk is full or another process writes the file,
/// Error(data) where all samples are bad.
PackResult pack(const Dataset& dataset, const std::string& path, int threads, const PackProgress& progress = {});

}  // namespace neurim
