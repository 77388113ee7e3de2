// Einstein's sums, by products of two operands at a time.
#include <algorithm>
#include <map>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/model/onnx/operators/product.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

/// What the axes of a tensor are called: letters, and numbers from kDots on for those of an ellipsis, counted from the
/// last one, so that operands of fewer such axes broadcast.
using Labels = std::vector<int>;
constexpr int kDots = 256;

/// A tensor whose axes have names.
struct LabelledTensor {
  Tensor x;
  Labels labels;

  int place(int label) const {
    const auto found = std::find(labels.begin(), labels.end(), label);
    return found == labels.end() ? -1 : static_cast<int>(found - labels.begin());
  }
  bool has(int label) const { return place(label) >= 0; }
  Dim size(int label) const { return x.size(place(label)); }
};

struct Equation {
  std::vector<std::string> terms;
  std::string result;
  bool has_result = false;
};

Equation parsed_equation(const std::string& text) {
  Equation equation;
  std::string left;
  std::copy_if(text.begin(), text.end(), std::back_inserter(left), [](char c) { return c != ' '; });
  if (const std::size_t arrow = left.find("->"); arrow != std::string::npos) {
    equation.result = left.substr(arrow + 2);
    equation.has_result = true;
    left.resize(arrow);
  }
  for (std::size_t first = 0; first <= left.size();) {
    const std::size_t comma = std::min(left.find(',', first), left.size());
    equation.terms.push_back(left.substr(first, comma - first));
    first = comma + 1;
  }
  return equation;
}

/// The names in a term; `dots` axes for its ellipsis.
Labels labels_of(const std::string& term, int dots) {
  Labels labels;
  bool ellipsis = false;
  for (std::size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == '.' && term.compare(i, 3, "...") == 0 && !ellipsis) {
      for (int dot = dots; dot-- > 0;) labels.push_back(kDots + dot);
      ellipsis = true;
      i += 2;
      continue;
    }
    require((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), "the term '", term, "' has '", c,
            "', where a letter or one ellipsis is wanted");
    labels.push_back(c);
  }
  return labels;
}

int dots_of(const std::string& term, int rank) {
  if (term.find("...") == std::string::npos) return 0;
  const int letters = static_cast<int>(term.size()) - 3;
  require(rank >= letters, "the term '", term, "' has ", letters, " letters, and its operand ", rank, " axes");
  return rank - letters;
}

/// Takes the diagonal of axes that have one name.
LabelledTensor with_names_once(LabelledTensor t) {
  for (std::size_t first = 0; first < t.labels.size(); ++first) {
    const auto again = std::find(t.labels.begin() + static_cast<std::ptrdiff_t>(first) + 1, t.labels.end(),
                                 t.labels[first]);
    if (again == t.labels.end()) continue;
    const int label = t.labels[first], one = static_cast<int>(first),
              other = static_cast<int>(again - t.labels.begin());
    require(t.x.size(one) == t.x.size(other), "axes of one name have the sizes ", t.x.size(one), " and ",
            t.x.size(other));
    std::vector<std::int64_t> perm;
    std::vector<Dim> sizes;
    Labels labels;
    for (int axis = 0; axis < t.x.rank(); ++axis) {
      if (axis == one || axis == other) continue;
      perm.push_back(axis);
      sizes.push_back(t.x.size(axis));
      labels.push_back(t.labels[static_cast<std::size_t>(axis)]);
    }
    perm.insert(perm.end(), {one, other});
    const std::int64_t size = t.x.size(one);
    sizes.push_back(size * size);
    const Tensor rows = reshape(transpose(t.x, perm), Shape{std::span<const Dim>(sizes)});
    labels.push_back(label);
    t = {slice(rows, {0}, {size * size}, {-1}, {size + 1}), labels};
    first = static_cast<std::size_t>(-1);  // names stand elsewhere now
  }
  return t;
}

/// Sums over the axes whose names `is_needed` does not want.
template <class IsNeeded>
LabelledTensor summed(const LabelledTensor& t, IsNeeded is_needed) {
  std::vector<std::int64_t> axes;
  Labels labels;
  for (std::size_t axis = 0; axis < t.labels.size(); ++axis) {
    if (is_needed(t.labels[axis]))
      labels.push_back(t.labels[axis]);
    else
      axes.push_back(static_cast<std::int64_t>(axis));
  }
  return axes.empty() ? t : LabelledTensor{sum(t.x, axes), labels};
}

/// The axes in another order.
Tensor arranged(const LabelledTensor& t, const Labels& order) {
  if (order == t.labels) return t.x;
  std::vector<std::int64_t> perm;
  for (const int label : order) perm.push_back(t.place(label));
  return transpose(t.x, perm);
}

Dim product_of(const LabelledTensor& t, const Labels& labels) {
  Dim product = 1;
  for (const int label : labels) product *= t.size(label);
  return product;
}

/// The axes in groups, each of them one axis.
Tensor in_groups(const LabelledTensor& t, const std::vector<Labels>& groups) {
  Labels order;
  Shape shape;
  for (const Labels& group : groups) {
    order.insert(order.end(), group.begin(), group.end());
    shape.push_back(product_of(t, group));
  }
  const Tensor x = arranged(t, order);
  return x.shape() == shape ? x : reshape(x, shape);
}

Labels joined_labels(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Makes the axes that both have equal in size: one of size 1 is repeated, or the other is summed where it is summed
/// anyway.
template <class IsNeeded>
void match_sizes(LabelledTensor& a, LabelledTensor& b, IsNeeded is_needed) {
  for (const int label : a.labels) {
    if (!b.has(label) || a.size(label) == b.size(label)) continue;
    LabelledTensor &small = a.size(label) == 1 ? a : b, &large = a.size(label) == 1 ? b : a;
    require(small.size(label) == 1, "axes of one name have the sizes ", a.size(label), " and ", b.size(label));
    if (!is_needed(label)) {
      large.x = sum(large.x, {large.place(label)}, true);
    } else {
      Shape shape = small.x.shape();
      shape[small.place(label)] = large.size(label);
      small.x = broadcast_to(small.x, shape);
    }
  }
}

/// The product of two, summed over the names that `is_needed` does not want.
template <class IsNeeded>
LabelledTensor contracted(LabelledTensor a, LabelledTensor b, IsNeeded is_needed) {
  a = summed(a, [&](int label) { return is_needed(label) || b.has(label); });
  b = summed(b, [&](int label) { return is_needed(label) || a.has(label); });
  match_sizes(a, b, is_needed);
  Labels batch, inner, rows, columns;
  for (const int label : a.labels) (!b.has(label) ? rows : is_needed(label) ? batch : inner).push_back(label);
  for (const int label : b.labels)
    if (!a.has(label)) columns.push_back(label);

  LabelledTensor result{{}, joined_labels(joined_labels(batch, rows), columns)};
  Shape shape;
  for (const int label : result.labels) shape.push_back(a.has(label) ? a.size(label) : b.size(label));
  if (inner.empty()) {
    result.x = reshape(in_groups(a, {batch, rows, {}}) * in_groups(b, {batch, {}, columns}), shape);
    return result;
  }
  const bool transpose_a = a.labels == joined_labels(joined_labels(batch, inner), rows) && !rows.empty(),
             transpose_b = b.labels == joined_labels(joined_labels(batch, columns), inner) && !columns.empty();
  const auto matrix = [&](const LabelledTensor& t, const Labels& first, const Labels& second) {
    return batch.empty() ? in_groups(t, {first, second}) : in_groups(t, {batch, first, second});
  };
  const Tensor left = matrix(a, transpose_a ? inner : rows, transpose_a ? rows : inner),
               right = matrix(b, transpose_b ? columns : inner, transpose_b ? inner : columns);
  result.x = reshape(onnx_product(left, right, transpose_a, transpose_b), shape);
  return result;
}

/// The names of the result where the equation does not say it: of the ellipsis, then those that occur once.
Labels implicit_result(const std::vector<std::string>& terms, int dots) {
  std::map<int, int> count;
  for (const std::string& term : terms)
    for (const int label : labels_of(term, 0)) ++count[label];
  Labels result = labels_of("...", dots);
  for (const auto& [label, times] : count)
    if (times == 1) result.push_back(label);
  return result;
}

}  // namespace

Tensor onnx_einsum(const std::string& text, const Tensors& operands) {
  const Equation equation = parsed_equation(text);
  require(equation.terms.size() == operands.size() && !operands.empty(), "the equation '", text, "' has ",
          equation.terms.size(), " terms, and there are ", operands.size(), " operands");
  std::vector<LabelledTensor> all;
  int dots = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const int own = dots_of(equation.terms[i], operands[i].rank());
    const Labels labels = labels_of(equation.terms[i], own);
    require(std::ssize(labels) == operands[i].rank(), "the term '", equation.terms[i], "' has ", labels.size(),
            " axes, and its operand is ", operands[i].shape());
    all.push_back(with_names_once({operands[i], labels}));
    dots = std::max(dots, own);
  }
  const Labels result = equation.has_result ? labels_of(equation.result, dots) : implicit_result(equation.terms, dots);
  for (std::size_t i = 0; i < result.size(); ++i) {
    require(std::find(result.begin() + static_cast<std::ptrdiff_t>(i) + 1, result.end(), result[i]) == result.end(),
            "the result '", equation.result, "' names an axis twice");
    require(std::any_of(all.begin(), all.end(), [&](const LabelledTensor& t) { return t.has(result[i]); }),
            "the result '", equation.result, "' names an axis that no operand has");
  }
  const auto needed_after = [&](std::size_t operand) {
    return [&, operand](int label) {
      return std::find(result.begin(), result.end(), label) != result.end() ||
             std::any_of(all.begin() + static_cast<std::ptrdiff_t>(operand), all.end(),
                         [&](const LabelledTensor& t) { return t.has(label); });
    };
  };
  LabelledTensor value = all[0];
  for (std::size_t i = 1; i < all.size(); ++i) value = contracted(value, all[i], needed_after(i + 1));
  value = summed(value, needed_after(all.size()));
  return arranged(value, result);
}

}  // namespace neurim
