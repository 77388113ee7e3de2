// The records of a TFRecord file (tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details").
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "neurim/data/sources/parts.h"

namespace neurim {

struct TfRecord {
  std::uint64_t offset = 0, size = 0;              ///< of its data
  std::uint64_t image_offset = 0, image_size = 0;  ///< of the image in the file
  std::string label;                               ///< "" where it has none
};

struct TfRecordIndex {
  std::vector<TfRecord> records;  ///< those that hold an image and a label
  std::int64_t others = 0;        ///< whole records without one of the two, or with several labels
  std::string reason;             ///< what is wrong with the first of them that is more than lacking, and where
  std::string damage;             ///< what is wrong and where; empty where all is right
};

/// Reads what names and labels need of each record, and checks the checksums of the lengths. Damage ends the
/// index and is not thrown.
TfRecordIndex index_tfrecord(const Bytes& file);

}  // namespace neurim
