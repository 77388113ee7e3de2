// Ensembles of decision trees, ai.onnx.ml's TreeEnsemble.
#include <algorithm>
#include <cmath>
#include <set>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/cast.h"

namespace neurim {

namespace {

constexpr std::int64_t kMember = 6;  // of the modes <=, <, >=, >, ==, !=, and in a set

/// The trees as their attributes have them: an entry for each inner node, and for each leaf.
struct Trees {
  std::vector<std::int64_t> features, modes, on_true, on_false, true_leafs, false_leafs, missing, leaf_targets, roots;
  std::vector<double> splits, leaf_weights;
  std::vector<std::set<double>> members;  ///< of the nodes that ask for a set, in their order; else empty
  std::int64_t targets;

  explicit Trees(const OnnxCall& call)
      : features(call.integers("nodes_featureids")),
        modes(call.value("nodes_modes").tensor().values<std::int64_t>()),
        on_true(call.integers("nodes_truenodeids")),
        on_false(call.integers("nodes_falsenodeids")),
        true_leafs(call.integers("nodes_trueleafs")),
        false_leafs(call.integers("nodes_falseleafs")),
        missing(call.integers("nodes_missing_value_tracks_true", std::vector<std::int64_t>(features.size(), 0))),
        leaf_targets(call.integers("leaf_targetids")),
        roots(call.integers("tree_roots")),
        splits(call.value("nodes_splits").tensor().values<double>()),
        leaf_weights(call.value("leaf_weights").tensor().values<double>()),
        members(features.size()),
        targets(call.integer("n_targets", std::int64_t{1})) {
    for (const std::size_t count : {modes.size(), on_true.size(), on_false.size(), true_leafs.size(),
                                    false_leafs.size(), missing.size(), splits.size()})
      require(count == features.size(), "the attributes of nodes have ", count, " and ", features.size(), " entries");
    require(leaf_targets.size() == leaf_weights.size(), "there are ", leaf_targets.size(), " targets of leafs and ",
            leaf_weights.size(), " weights");
    require(targets >= 1 && targets <= 1 << 20, "n_targets is ", targets);
    const auto inside = [](const std::vector<std::int64_t>& all, std::int64_t end) {
      return std::all_of(all.begin(), all.end(), [&](std::int64_t each) { return each >= 0 && each < end; });
    };
    require(inside(leaf_targets, targets) && inside(roots, std::ssize(features)) && inside(modes, kMember + 1),
            "targets, roots or modes are out of range");
    read_members(call);
  }

  /// The leaf that a row ends in.
  std::size_t leaf(std::int64_t root, const double* row, std::int64_t columns) const {
    std::int64_t at = root;
    for (std::size_t steps = 0; steps <= features.size(); ++steps) {
      require(at >= 0 && at < std::ssize(features), "node ", at, " is none of ", features.size());
      const auto node = static_cast<std::size_t>(at);
      require(features[node] >= 0 && features[node] < columns, "feature ", features[node], " of ", columns, " columns");
      const double x = row[features[node]];
      const bool yes = holds(node, x) || (std::isnan(x) && missing[node] != 0);
      at = (yes ? on_true : on_false)[node];
      if ((yes ? true_leafs : false_leafs)[node] == 0) continue;
      require(at >= 0 && at < std::ssize(leaf_weights), "leaf ", at, " is none of ", leaf_weights.size());
      return static_cast<std::size_t>(at);
    }
    fail(Fault::data, "a tree comes back to its node ", at);
  }

 private:
  void read_members(const OnnxCall& call) {
    if (!call.has("membership_values")) return;
    const std::vector<double> values = call.value("membership_values").tensor().values<double>();
    std::size_t next = 0;  // sets end with NaN
    for (std::size_t node = 0; node < modes.size(); ++node) {
      if (modes[node] != kMember) continue;
      for (; next < values.size() && !std::isnan(values[next]); ++next) members[node].insert(values[next]);
      ++next;
    }
  }

  bool holds(std::size_t node, double x) const {
    const double split = splits[node];
    switch (modes[node]) {
      case 0: return x <= split;
      case 1: return x < split;
      case 2: return x >= split;
      case 3: return x > split;
      case 4: return x == split;
      case 5: return x != split;
      default: return members[node].count(x) > 0;
    }
  }
};

/// Makes of the sums of a row what post_transform says: none, softmax, logistic, softmax of what is not 0.
void transform(std::int64_t how, double* row, std::int64_t count) {
  require(how >= 0 && how <= 3, "post_transform is ", how, ", and 0 to 3 are supported");
  if (how == 2)
    for (std::int64_t i = 0; i < count; ++i) row[i] = 1 / (1 + std::exp(-row[i]));
  if (how != 1 && how != 3) return;
  const double most = *std::max_element(row, row + count);
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (how == 3 && row[i] == 0) continue;
    total += row[i] = std::exp(row[i] - most);
  }
  for (std::int64_t i = 0; i < count; ++i) row[i] = total > 0 ? row[i] / total : row[i];
}

OnnxValues tree_ensemble(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  require(x.rank() == 2, "the input is ", x.type(), ", where rows of features are wanted");
  const std::vector<double> rows = call.numbers(0);
  const Trees trees(call);
  const std::int64_t count = x.size(0), columns = x.size(1), how = call.integer("aggregate_function", std::int64_t{1});
  require(how >= 0 && how <= 3, "aggregate_function is ", how, ", not 0 to 3");
  std::vector<double> out(static_cast<std::size_t>(count * trees.targets));
  for (std::int64_t row = 0; row < count; ++row) {
    double* sums = out.data() + row * trees.targets;
    std::vector<bool> met(static_cast<std::size_t>(trees.targets));
    for (const std::int64_t root : trees.roots) {
      const std::size_t leaf = trees.leaf(root, rows.data() + row * columns, columns);
      const auto target = static_cast<std::size_t>(trees.leaf_targets[leaf]);
      const double weight = trees.leaf_weights[leaf];
      if (how <= 1)
        sums[target] += weight;
      else
        sums[target] = !met[target] ? weight
                       : how == 2   ? std::min(sums[target], weight)
                                    : std::max(sums[target], weight);
      met[target] = true;
    }
    if (how == 0 && !trees.roots.empty())
      for (std::int64_t i = 0; i < trees.targets; ++i) sums[i] /= static_cast<double>(trees.roots.size());
    transform(call.integer("post_transform", std::int64_t{0}), sums, trees.targets);
  }
  return {cast(Tensor::from({DType::f64, {count, trees.targets}}, out.data()), x.dtype())};
}

}  // namespace

void add_tree_operators(OnnxOperators& to) { to.add("TreeEnsemble", 5, tree_ensemble, "ai.onnx.ml"); }

}  // namespace neurim
