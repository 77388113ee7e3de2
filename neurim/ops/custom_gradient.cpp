#include "neurim/ops/custom_gradient.h"

#include <limits>
#include <set>

#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/detach.h"

namespace neurim {

namespace {

/// Inputs of the function, its results, and what else it reads; the outputs are the results.
class CustomGradient final : public Op {
 public:
  std::int64_t inputs = 1, results = 1;
  GradientFunction backward;
  std::string called;

  std::string_view name() const override { return "custom_gradient"; }
  void fields(Fields& f) override { f("inputs", inputs)("results", results); }
  Types infer(std::span<const Type> in) const override {
    require(inputs >= 0 && results >= 1, name(), ": ", inputs, " inputs and ", results, " results");
    check_count(*this, in, first_read(), std::numeric_limits<std::size_t>::max());
    return {in.begin() + inputs, in.begin() + inputs + results};
  }
  Tensors decompose(std::span<const Tensor> in) const override {
    return {in.begin() + inputs, in.begin() + inputs + results};
  }
  Tensors grad(const Gradient& g) const override {
    require(static_cast<bool>(backward), name(),
            ": the gradient is a function of the program that made this graph, which files do not have");
    const auto count = static_cast<std::size_t>(inputs);
    const Tensors in(g.in.begin(), g.in.begin() + inputs);
    for (std::size_t i = first_read(); i < g.in.size(); ++i)
      if (g.wanted[i])
        fail_at(in, Fault::usage,
                text(called, ": the forward function reads ",
                     g.in[i].name().empty() ? text("a tensor ", g.in[i].type()) : std::string(g.in[i].name()),
                     " from outside, so that it would get no gradient; pass it as an argument"));
    Tensors found = backward({g.in.first(count), g.out, g.dout, g.wanted.first(count)});
    if (found.size() != count)
      fail_at(in, Fault::usage,
              text(called, ": the backward function gives ", found.size(), " gradients; there are ", count, " inputs"));
    for (std::size_t i = 0; i < count; ++i)
      if (g.wanted[i] && found[i] && found[i].type() != in[i].type())
        fail_at(in, Fault::usage,
                text(called, ": the backward function gives the gradient ", found[i].type(), " for input ", i,
                     ", which is ", in[i].type(), "; a gradient has the shape and dtype of its input"));
    found.resize(g.in.size());
    return found;
  }
  bool pure() const override { return false; }  // the gradients of two with the same inputs may differ
  // Of integers, since finite differences know nothing of the gradient that it replaces.
  std::vector<Sample> samples() const override {
    auto two = std::make_shared<CustomGradient>();
    two->results = 2;
    const Type rows{DType::i64, {3, 5}}, flags{DType::boolean, {4}};
    const Fill digits{-5, 6};
    return {{shared_from_this(), {rows, rows}, {digits, digits}},
            {two, {rows, flags, rows, flags}, {digits, {}, digits}}};
  }

 private:
  std::size_t first_read() const { return static_cast<std::size_t>(inputs + results); }
};

/// The number of the value that reading a tensor gives in the trace. Plans drop the node that asks for it.
int value_read(const Tensor& tensor) { return producer(detach(tensor))->in[0]; }

/// The floating values that a function reads beside its inputs. Those that it has made itself have numbers from `first`
/// on.
Tensors read_outside(const Tensors& in, const Tensors& results, int first) {
  std::set<int> seen;
  for (const Tensor& tensor : in) seen.insert(value_read(tensor));
  std::vector<int> open;
  for (const Tensor& tensor : results) open.push_back(value_read(tensor));
  Tensors found;
  while (!open.empty()) {
    const int value = open.back();
    open.pop_back();
    if (!seen.insert(value).second) continue;
    const Tensor tensor = traced_value(value);
    const Graph::Node* node = producer(tensor);
    if (!node || value < first) {
      if (is_floating(tensor.dtype())) found.push_back(tensor);
    } else if (node->op->name() != "detach") {
      open.insert(open.end(), node->in.begin(), node->in.end());
    }
  }
  return found;
}

}  // namespace

Tensors custom_gradient(const Tensors& in, const std::function<Tensors(const Tensors&)>& forward,
                        GradientFunction backward, std::string called) {
  if (!tracing()) return forward(in);
  require(!in.empty(), called, ": has no input");
  const int first = detach(in[0]).value()->id;
  const Tensors results = forward(in);
  require(!results.empty(), called, ": the forward function gives no tensor");
  const Tensors outside = read_outside(in, results, first);
  const auto op = std::make_shared<CustomGradient>();
  op->inputs = std::ssize(in);
  op->results = std::ssize(results);
  op->backward = std::move(backward);
  op->called = std::move(called);
  Tensors all = in;
  all.insert(all.end(), results.begin(), results.end());
  all.insert(all.end(), outside.begin(), outside.end());
  return neurim::apply(op, all);
}

void define_custom_gradient() { define<CustomGradient>(); }

}  // namespace neurim
