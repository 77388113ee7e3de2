// What a classifier sees in images: the numbers that its last layer reads.
#pragma once
#include <string>
#include <vector>

#include "neurim/train/checkpoint.h"
#include "neurim/train/validation.h"

namespace neurim {

/// The features of samples.
struct Embedding {
  std::vector<std::int64_t> samples = {};  ///< their numbers in the split
  std::vector<std::int64_t> labels = {};   ///< their classes
  std::vector<float> features = {};        ///< (samples, dimensions)
  std::size_t dimensions = 0;              ///< features of a sample
  std::vector<BadSample> unreadable = {};  ///< what could not be decoded
};

/// The features of a split: the input of the last fully connected layer, or of a model that ends in others the mean
/// over places of its last feature maps. At most `most` samples, spread evenly over the split. Throws Error(usage) for
/// a model without either, Error(failure) with the name of a sample whose features are not finite.
Embedding embed(const Checkpoint& checkpoint, const Dataset& dataset, Split split, const Preprocess& preprocess,
                const TrainOptions& options, std::int64_t most, const Validation::Watch& watch = {});

/// Two samples that are alike.
struct Alike {
  std::size_t a = 0,      ///< the place of the one in the embedding
      b = 0;              ///< and of the other
  double similarity = 0;  ///< the cosine of their features
};

/// The `count` most similar others of each sample, the most similar first.
std::vector<std::vector<Alike>> nearest_neighbours(const Embedding& embedding, std::size_t count);

/// Pairs of at least this similarity, the most similar first; those of a sample and its nearest others alone.
std::vector<Alike> duplicates_in(const std::vector<std::vector<Alike>>& neighbours, double similarity);

/// Writes features.npy (samples, dimensions), samples.csv (file, label), neighbours.csv, the five nearest of each
/// sample, duplicates.csv, duplicates_in of these, and the charts pca and tsne as PNG and SVG. `what` names model, data
/// and split. Throws Error(resource).
void write_embedding(const Embedding& embedding, const Dataset& dataset, Split split, double similarity,
                     const std::string& what, const fs::path& folder);

}  // namespace neurim
