#include "neurim/infer/embedding.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/evaluate/csv.h"
#include "neurim/evaluate/projection.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"
#include "neurim/infer/behind.h"
#include "neurim/model/state.h"
#include "neurim/ops/mean.h"
#include "neurim/weights/npy.h"

namespace neurim {

namespace {

/// The features that logits of the current trace are made of.
Tensor features_of_last_layer(const Tensor& logits, const std::string& model) {
  for (const Graph::Node* node : nodes_behind(logits)) {
    const Tensor from = node->in.empty() ? Tensor() : traced_value(node->in[0]);
    if (node->op->name() == "linear" && from.rank() == 2) return from;
    if (node->op->name() == "conv2d") return mean(from, {2, 3});
  }
  fail(Fault::usage, model, ": has no fully connected layer and no convolution, whose input could be its features");
}

/// Writes a chart as PNG and SVG.
void write_chart(const fs::path& folder, const std::string& name, const Canvas& canvas) {
  write_file(folder / (name + ".png"), canvas.png());
  write_file(folder / (name + ".svg"), canvas.svg());
}

}  // namespace

Embedding embed(const Checkpoint& checkpoint, const Dataset& dataset, Split split, const Preprocess& preprocess,
                const TrainOptions& options, std::int64_t most, const Validation::Watch& watch) {
  const std::unique_ptr<BatchSource> loader = open_loader(options.loader, dataset, split, preprocess, {},
                                                          loader_of(options));
  Compiled plans(
      [&](const Tensors& in) {
        return Tensors{features_of_last_layer(checkpoint.model(in[0]), checkpoint.config.model)};
      },
      {.device = device_named(options.device)});
  const std::int64_t samples = dataset.size(split), step = std::max<std::int64_t>(1, (samples + most - 1) / most);
  std::set<std::int64_t> seen;
  Embedding out;
  loader->start(0);
  Batch batch;
  for (std::int64_t done = 1; loader->next(batch); ++done) {
    const Tensor features = plans({Tensor::from(image_type(preprocess, batch.size), batch.images.data())})[0];
    const std::vector<float> values = features.values<float>();
    out.dimensions = static_cast<std::size_t>(std::int64_t{features.size(1)});
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.size); ++i) {
      const std::int64_t sample = batch.indices[i];
      if (sample % step != 0 || !seen.insert(sample).second) continue;
      const auto row = std::span(values).subspan(i * out.dimensions, out.dimensions);
      if (!std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); }))
        fail(Fault::failure, dataset.name(split, sample), ": the model's features of it are not finite");
      out.samples.push_back(sample);
      out.labels.push_back(dataset.label(split, sample));
      out.features.insert(out.features.end(), row.begin(), row.end());
    }
    if (watch && !watch(static_cast<double>(done) / static_cast<double>(loader->batches()))) break;
  }
  out.unreadable = loader->bad();
  return out;
}

std::vector<std::vector<Alike>> nearest_neighbours(const Embedding& embedding, std::size_t count) {
  const std::size_t n = embedding.samples.size(), d = embedding.dimensions;
  std::vector<float> unit = embedding.features;
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = std::span(unit).subspan(i * d, d);
    const double length = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    for (float& value : row) value = length > 0 ? static_cast<float>(value / length) : 0;
  }
  std::vector<std::vector<Alike>> out(n);
  std::vector<Alike> others;
  for (std::size_t i = 0; i < n; ++i) {
    others.clear();
    for (std::size_t j = 0; j < n; ++j)
      if (j != i) others.push_back({i, j, std::inner_product(&unit[i * d], &unit[i * d] + d, &unit[j * d], 0.0f)});
    const std::size_t kept = std::min(count, others.size());
    std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(kept), others.end(),
                      [](const Alike& a, const Alike& b) {
                        return a.similarity != b.similarity ? a.similarity > b.similarity : a.b < b.b;
                      });
    out[i].assign(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(kept));
  }
  return out;
}

std::vector<Alike> duplicates_in(const std::vector<std::vector<Alike>>& neighbours, double similarity) {
  std::vector<Alike> out;
  std::set<std::pair<std::size_t, std::size_t>> met;
  for (const auto& of_one : neighbours)
    for (const Alike& pair : of_one)
      if (pair.similarity >= similarity && met.insert(std::minmax(pair.a, pair.b)).second) out.push_back(pair);
  std::stable_sort(out.begin(), out.end(), [](const Alike& a, const Alike& b) { return a.similarity > b.similarity; });
  return out;
}

void write_embedding(const Embedding& embedding, const Dataset& dataset, Split split, double similarity,
                     const std::string& what, const fs::path& folder) {
  const auto name = [&](std::size_t place) { return csv_field(dataset.name(split, embedding.samples[place])); };
  const auto label = [&](std::size_t place) { return csv_field(dataset.label_name(split, embedding.samples[place])); };
  const std::int64_t n = std::ssize(embedding.samples);
  write_npy(folder / "features.npy",
            Tensor::from({n, static_cast<std::int64_t>(embedding.dimensions)}, embedding.features));
  std::string samples = "file,label\n", near = "file,label,neighbour,neighbour_label,similarity\n",
              alike = "file,label,other,other_label,similarity\n";
  const auto pair = [&](const Alike& one) {
    return text(name(one.a), ',', label(one.a), ',', name(one.b), ',', label(one.b), ',', one.similarity, '\n');
  };
  const std::vector<std::vector<Alike>> neighbours = nearest_neighbours(embedding, 5);
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    samples += text(name(i), ',', label(i), '\n');
    for (const Alike& one : neighbours[i]) near += pair(one);
  }
  for (const Alike& one : duplicates_in(neighbours, similarity)) alike += pair(one);
  write_file(folder / "samples.csv", samples);
  write_file(folder / "neighbours.csv", near);
  write_file(folder / "duplicates.csv", alike);
  const std::string details = text(what, ", ", plural(n, "sample"), " of ", embedding.dimensions, " features");
  write_chart(folder, "pca",
              scatter_chart("Features, principal components", details,
                            principal_components(embedding.features, embedding.dimensions), embedding.labels,
                            dataset.class_names()));
  write_chart(folder, "tsne",
              scatter_chart("Features, t-SNE", details, tsne(embedding.features, embedding.dimensions),
                            embedding.labels, dataset.class_names()));
}

}  // namespace neurim
