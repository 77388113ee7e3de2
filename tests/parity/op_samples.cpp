// Runs every op on its samples, and every composition, for ops_test.py to compare with PyTorch:
// op_samples FILE.safetensors
// Prints a JSON list of {"op", "attributes", "what", "tolerance", "inputs", "outputs", "differentiable",
// "composition"}, in which an infinite attribute is null. The file holds, for sample i, its inputs "i.in0" …,
// its outputs "i.out0" …, the gradients "i.dout0" … that its floating outputs are given in this order, and
// the gradients "i.din0" … that follow for its inputs. Optimised plans compute them.
#include <iostream>
#include <nlohmann/json.hpp>

#include "neurim/neurim.h"
#include "tests/compositions.h"
#include "tests/op_table.h"

namespace neurim {
namespace {

using Json = nlohmann::json;

class JsonFields final : public Fields {
 public:
  Fields& operator()(std::string_view name, std::int64_t& value) override { return put(name, value); }
  Fields& operator()(std::string_view name, double& value) override { return put(name, value); }
  Fields& operator()(std::string_view name, bool& value) override { return put(name, value); }
  Fields& operator()(std::string_view name, std::string& value) override { return put(name, value); }
  Fields& operator()(std::string_view name, DType& value) override { return put(name, text(value)); }
  Fields& operator()(std::string_view name, std::vector<std::int64_t>& value) override { return put(name, value); }
  Fields& operator()(std::string_view name, std::vector<double>& value) override { return put(name, value); }

  Json json = Json::object();

 private:
  template <class T>
  Fields& put(std::string_view name, const T& value) {
    json[std::string(name)] = value;
    return *this;
  }
};

/// The rounding of the narrowest floating type.
double narrowest(Types types, const Types& more) {
  types.insert(types.end(), more.begin(), more.end());
  double rounding = 0;
  for (const Type& type : types)
    if (is_floating(type.dtype)) rounding = std::max(rounding, op_table::epsilon(type.dtype));
  return rounding;
}

/// A function with what the parity test has to know of it.
struct Case {
  std::string name, what;
  bool composition;
  Json attributes;
  double tolerance;
  std::function<Tensors(const Tensors&)> function;
  Types in, out;
};

class Samples {
 public:
  void add(const Sample& sample) {
    JsonFields attributes;
    fields(*sample.op, attributes);
    add({std::string(sample.op->name()), op_table::reproducer(*sample.op, sample.in, 1), false, attributes.json,
         sample.tolerance, [&](const Tensors& x) { return apply(sample.op, x); }, sample.in,
         sample.op->infer(sample.in)},
        op_table::inputs(sample, sample.in, 1));
  }

  void add(const Composition& composition) {
    const Sample sample{nullptr, composition.in, composition.fill};
    const Tensors in = op_table::inputs(sample, sample.in, 1);
    add({composition.name,
         text(composition.name, ' ', composition.arguments),
         true,
         Json::parse(composition.arguments),
         sample.tolerance,
         [&](const Tensors& x) -> Tensors { return {composition.function(x)}; },
         sample.in,
         {composition.function(in).type()}},
        in);
  }

  void write(const fs::path& path) const {
    write_safetensors(path, tensors_);
    std::cout << rows_ << '\n';
  }

 private:
  void add(const Case& run, const Tensors& in) {
    Tensors given = in;
    Random random(2);
    for (const Type& type : run.out)
      if (is_floating(type.dtype)) given.push_back(op_table::from_doubles(type, op_table::numbers(type, {}, random)));
    keep("in", in);
    keep("dout", {given.begin() + static_cast<std::ptrdiff_t>(in.size()), given.end()});
    keep("out", plan(run.function, run.in, {.training = true})(in));
    const bool differentiable = differentiate(run, given);
    rows_.push_back({{"op", run.name},
                     {"attributes", run.attributes},
                     {"what", run.what},
                     {"tolerance", run.tolerance + narrowest(run.in, run.out)},
                     {"inputs", in.size()},
                     {"outputs", run.out.size()},
                     {"differentiable", differentiable},
                     {"composition", run.composition}});
  }

  /// Keeps the gradients of the floating inputs that the outputs depend on; false when the op has none.
  bool differentiate(const Case& sample, const Tensors& given) {
    if (!op_table::any_floating(sample.in) || !op_table::any_floating(sample.out)) return false;
    std::vector<std::size_t> reached;
    const auto backward = [&](const Tensors& x) {
      const auto inputs_end = x.begin() + static_cast<std::ptrdiff_t>(sample.in.size());
      const Tensors in(x.begin(), inputs_end), seeds(inputs_end, x.end()), y = sample.function(in);
      Tensors of, wrt, found;
      std::vector<std::size_t> wrt_inputs;
      for (const Tensor& tensor : y)
        if (is_floating(tensor.dtype())) of.push_back(tensor);
      for (std::size_t i = 0; i < in.size(); ++i)
        if (is_floating(in[i].dtype())) wrt.push_back(in[i]), wrt_inputs.push_back(i);
      const Tensors gradient = gradients(of, wrt, seeds);
      for (std::size_t k = 0; k < gradient.size(); ++k)
        if (gradient[k]) found.push_back(gradient[k]), reached.push_back(wrt_inputs[k]);
      return found;
    };
    try {
      const Plan backwards = plan(backward, op_table::types_of(given), {.training = true});
      const Tensors din = backwards(given);
      for (std::size_t k = 0; k < din.size(); ++k)
        tensors_.emplace_back(text(rows_.size(), ".din", reached[k]), din[k]);
      return true;
    } catch (const Error& error) {
      if (error.what() != text(sample.name, ": has no gradient")) throw;
      return false;
    }
  }

  void keep(std::string_view what, const Tensors& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      tensors_.emplace_back(text(rows_.size(), '.', what, i), tensors[i]);
  }

  Json rows_ = Json::array();
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) {
  using namespace neurim;
  try {
    require(argc == 2, "usage: op_samples FILE.safetensors");
    initialize();
    Samples samples;
    for (const std::string& name : op_names())
      for (const Sample& sample : make_op(name)->samples()) samples.add(sample);
    for (const Composition& composition : compositions()) samples.add(composition);
    samples.write(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "op_samples: " << error.what() << '\n';
    return 1;
  }
}
