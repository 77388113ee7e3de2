// Runs the layers that model files can name, for layers_test.py to compare with PyTorch's; prints JSON.
//   layers list                                          {layer: {option: default}}
//   layers run CASES.json IN.safetensors OUT.safetensors
// CASES.json is a list of {"layer", "options", "inputs", "training"}; Bilinear, which takes two inputs and so
// has no name, is known too. IN holds of case i its inputs "i.in0" …, the layer's tensors "i.tensor.<name>"
// and the gradient of its result, "i.dout". OUT gets the result of a plan for inference with frozen weights,
// "i.frozen"; of a plan with gradients, for training or not, the result "i.out" and the gradients "i.din0" …
// of the floating inputs and "i.d.<name>" of the weights; and the state behind it, "i.after.<name>". Prints
// {"options", "tensors", "state"} of each case, all its options and the names of its tensors, or {"error"}.
#include <fstream>
#include <nlohmann/json.hpp>

#include "neurim/neurim.h"
#include "tests/op_table.h"
#include "tests/parity/answer.h"

namespace neurim {
namespace {

using Json = nlohmann::json;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Takes the options that are given, and notes what all of them are then.
class JsonOptions final : public Fields {
 public:
  explicit JsonOptions(Json given = Json::object()) : given_(std::move(given)) {}

  Fields& operator()(std::string_view name, std::int64_t& value) override { return visit(name, value); }
  Fields& operator()(std::string_view name, double& value) override { return visit(name, value); }
  Fields& operator()(std::string_view name, bool& value) override { return visit(name, value); }
  Fields& operator()(std::string_view name, std::string& value) override { return visit(name, value); }
  Fields& operator()(std::string_view name, DType& value) override {
    std::string word = text(value);
    visit(name, word);
    value = *dtype_named(word);
    return *this;
  }
  Fields& operator()(std::string_view name, std::vector<std::int64_t>& value) override { return visit(name, value); }
  Fields& operator()(std::string_view name, std::vector<double>& value) override { return visit(name, value); }

  Json all = Json::object();

 private:
  template <class T>
  Fields& visit(std::string_view name, T& value) {
    const std::string key(name);
    if (given_.contains(key)) take(given_.at(key), value);
    all[key] = value;
    return *this;
  }

  template <class T>
  static void take(const Json& given, T& value) {
    value = given.get<T>();
  }
  /// One number is a list too.
  template <class T>
  static void take(const Json& given, std::vector<T>& value) {
    value = given.is_array() ? given.get<std::vector<T>>() : std::vector<T>(1, given.get<T>());
  }
  /// Whole numbers are words too, as in model files.
  static void take(const Json& given, std::string& value) {
    if (given.is_string()) {
      value = given.get<std::string>();
      return;
    }
    std::vector<std::int64_t> numbers;
    take(given, numbers);
    std::vector<std::string> words;
    for (const std::int64_t number : numbers) words.push_back(text(number));
    value = join(words, ",");
  }

  Json given_;
};

Json list_layers() {
  Json layers = Json::object();
  for (const std::string& name : nn::layer_names()) {
    JsonOptions options;
    nn::make_layer(name)->fields(options);
    layers[name] = options.all;
  }
  return layers;
}

struct Built {
  std::function<Tensor(const Tensors&)> forward;
  Parameters tensors;
};

/// The layer of a case for inputs of these types; `options` get all that it has.
Built built(const Json& row, const Types& in, Json& options) {
  const std::string name = row.at("layer").get<std::string>();
  const Json& given = row.at("options");
  if (name == "Bilinear") {
    options = given;
    nn::Bilinear layer(in[0].shape[-1], in[1].shape[-1], given.at("out").get<std::int64_t>(),
                       {.bias = given.value("bias", true)});
    Parameters tensors = named_parameters(layer);
    return {[layer](const Tensors& x) { return layer(x[0], x[1]); }, std::move(tensors)};
  }
  const std::unique_ptr<nn::NamedLayer> named = nn::make_layer(name);
  require(named != nullptr, "there is no layer '", name, "'");
  JsonOptions taken(given), now;
  named->fields(taken);
  named->fields(now);
  options = now.all;
  for (const auto& [option, value] : given.items())
    require(options.contains(option), name, ": there is no option '", option, "'");
  nn::Layer layer = named->build(in[0]);
  Parameters tensors = named_parameters(layer);
  return {[layer](const Tensors& x) { return layer(x[0]); }, std::move(tensors)};
}

/// The result of the layer, and the gradients of its floating inputs and of its weights; the last of what is
/// given is the gradient of the result.
Tensors result_and_gradients(const Built& layer, const Tensors& given) {
  const Tensors in(given.begin(), given.end() - 1);
  Tensors wrt, all{layer.forward(in)};
  for (const Tensor& x : in)
    if (is_floating(x.dtype())) wrt.push_back(x);
  for (const Parameter& p : layer.tensors)
    if (p.role == Role::weight) wrt.push_back(p.tensor);
  const Tensors found = gradients(std::span(&all[0], 1), wrt, std::span(&given.back(), 1));
  for (std::size_t k = 0; k < wrt.size(); ++k) all.push_back(found[k] ? found[k] : Tensor::full(wrt[k].type(), 0));
  return all;
}

/// Runs case `i`, appends to the results and gives its row of the answer.
Json run_case(const Json& row, std::size_t i, const SafeTensors& file, NamedTensors& results) {
  const auto keep = [&](const std::string& what, const Tensor& tensor) {
    results.emplace_back(text(i, '.', what), tensor);
  };
  Tensors in;
  for (std::size_t k = 0; k < row.at("inputs").get<std::size_t>(); ++k) in.push_back(file.load(text(i, ".in", k)));
  Json answer{{"options", Json::object()}, {"tensors", Json::array()}, {"state", Json::array()}};
  const Built layer = built(row, op_table::types_of(in), answer["options"]);
  for (const Parameter& p : layer.tensors) {
    p.tensor.assign(file.load(text(i, ".tensor.", p.name)));
    answer["tensors"].push_back(p.name);
  }

  const auto forward = [&](const Tensors& x) -> Tensors { return {layer.forward(x)}; };
  keep("frozen", plan(forward, op_table::types_of(in), {.freeze = true})(in)[0]);

  Tensors given = in;
  given.push_back(file.load(text(i, ".dout")));
  const Plan step = plan([&](const Tensors& x) { return result_and_gradients(layer, x); }, op_table::types_of(given),
                         {.training = row.at("training").get<bool>()});
  const Tensors found = step(given);
  std::size_t next = 0;
  keep("out", found[next++]);
  for (std::size_t k = 0; k < in.size(); ++k)
    if (is_floating(in[k].dtype())) keep(text("din", k), found[next++]);
  for (const Parameter& p : layer.tensors)
    if (p.role == Role::weight) {
      keep("d." + p.name, found[next++]);
    } else {
      keep("after." + p.name, p.tensor);
      answer["state"].push_back(p.name);
    }
  return answer;
}

Json run(const fs::path& cases, const fs::path& from, const fs::path& to) {
  const Json rows = Json::parse(std::ifstream(cases));
  const SafeTensors file(from);
  NamedTensors results;
  Json answers = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Json answer = Json::object();
    try {
      answer = run_case(rows[i], i, file, results);
    } catch (const std::exception& error) {  // the other cases are told of all the same
      answer["error"] = error.what();
    }
    answers.push_back(answer);
  }
  write_safetensors(to, results);
  return answers;
}

Json answer(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "list") return list_layers();
  require(words.size() == 4 && words[0] == "run",
          "usage: layers list | layers run CASES.json IN.safetensors OUT.safetensors");
  return run(words[1], words[2], words[3]);
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) { return neurim::print_answer("layers", argc, argv, neurim::answer); }
