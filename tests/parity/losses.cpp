// Computes losses for losses_test.py: losses CASES.json IN.safetensors OUT.safetensors
// CASES.json is a list of {"loss", "options", "dtype", "inputs"}. IN holds the inputs "i.in0" … of case i
// and, as "i.dloss", the gradient of its loss; floating ones are f64 and become the dtype. OUT gets the loss
// "i.loss" and the gradients "i.din0" … of the floating inputs. An optimised plan computes them.
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "neurim/neurim.h"

namespace neurim {
namespace {

using Json = nlohmann::json;
using Loss = Tensor (*)(const Tensors& in, const Json& options);

std::string reduction(const Json& o) { return o.at("reduction"); }
Tensor optional(const Tensors& in, std::size_t i) { return i < in.size() ? in[i] : Tensor(); }

const std::map<std::string, Loss> kLosses{
    {"bce_loss",
     [](const Tensors& in, const Json& o) { return bce_loss(in[0], in[1], optional(in, 2), reduction(o)); }},
    {"cosine_embedding_loss",
     [](const Tensors& in, const Json& o) {
       return cosine_embedding_loss(in[0], in[1], in[2], o.value("margin", 0.), reduction(o));
     }},
    {"cross_entropy",
     [](const Tensors& in, const Json& o) {
       return cross_entropy(in[0], in[1],
                            {.label_smoothing = o.value("label_smoothing", 0.), .reduction = reduction(o)},
                            optional(in, 2));
     }},
    {"ctc_loss",  // of logits, since the gradients to the log probabilities differ
     [](const Tensors& in, const Json& o) {
       return ctc_loss(log_softmax(in[0], 2), in[1], in[2], in[3],
                       {.blank = o.at("blank"), .reduction = reduction(o), .zero_infinity = o.at("zero_infinity")});
     }},
    {"gaussian_nll_loss",
     [](const Tensors& in, const Json& o) {
       return gaussian_nll_loss(in[0], in[1], in[2],
                                {.full = o.at("full"), .eps = o.at("eps"), .reduction = reduction(o)});
     }},
    {"hinge_embedding_loss",
     [](const Tensors& in, const Json& o) { return hinge_embedding_loss(in[0], in[1], o.at("margin"), reduction(o)); }},
    {"huber_loss",
     [](const Tensors& in, const Json& o) { return huber_loss(in[0], in[1], o.at("delta"), reduction(o)); }},
    {"kl_div",
     [](const Tensors& in, const Json& o) {
       return kl_div(in[0], in[1], {.log_target = o.at("log_target"), .reduction = reduction(o)});
     }},
    {"l1_loss", [](const Tensors& in, const Json& o) { return l1_loss(in[0], in[1], reduction(o)); }},
    {"margin_ranking_loss",
     [](const Tensors& in, const Json& o) {
       return margin_ranking_loss(in[0], in[1], in[2], o.at("margin"), reduction(o));
     }},
    {"multi_margin_loss",
     [](const Tensors& in, const Json& o) {
       return multi_margin_loss(in[0], in[1], {.p = o.at("p"), .margin = o.at("margin"), .reduction = reduction(o)},
                                optional(in, 2));
     }},
    {"nll_loss",
     [](const Tensors& in, const Json& o) {
       return nll_loss(in[0], in[1], {.ignore_index = o.at("ignore_index"), .reduction = reduction(o)},
                       optional(in, 2));
     }},
    {"poisson_nll_loss",
     [](const Tensors& in, const Json& o) {
       return poisson_nll_loss(in[0], in[1],
                               {.log_input = o.at("log_input"), .full = o.at("full"), .reduction = reduction(o)});
     }},
    {"sigmoid_focal_loss",
     [](const Tensors& in, const Json& o) {
       return sigmoid_focal_loss(in[0], in[1],
                                 {.alpha = o.at("alpha"), .gamma = o.at("gamma"), .reduction = reduction(o)});
     }},
    {"smooth_l1_loss",
     [](const Tensors& in, const Json& o) { return smooth_l1_loss(in[0], in[1], o.at("beta"), reduction(o)); }},
    {"softmax_focal_loss",
     [](const Tensors& in, const Json& o) {
       return softmax_focal_loss(
           in[0], in[1], {.gamma = o.at("gamma"), .ignore_index = o.at("ignore_index"), .reduction = reduction(o)},
           optional(in, 2));
     }},
    {"triplet_margin_loss",
     [](const Tensors& in, const Json& o) {
       return triplet_margin_loss(in[0], in[1], in[2],
                                  {.margin = o.at("margin"), .swap = o.at("swap"), .reduction = reduction(o)});
     }},
};

Tensor in_dtype(const Tensor& x, DType dtype) { return is_floating(x.dtype()) ? cast(x, dtype) : x; }

/// The loss and the gradients of the floating inputs; the last input is the gradient of the loss.
Tensors loss_and_gradients(Loss loss, const Json& options, const Tensors& given) {
  const Tensors in(given.begin(), given.end() - 1);
  const Tensor value = loss(in, options);
  Tensors wrt, out{value};
  for (const Tensor& x : in)
    if (is_floating(x.dtype())) wrt.push_back(x);
  const Tensors found = gradients(std::span(&value, 1), wrt, std::span(&given.back(), 1));
  for (std::size_t k = 0; k < wrt.size(); ++k) out.push_back(found[k] ? found[k] : Tensor::full(wrt[k].type(), 0));
  return out;
}

void run(const fs::path& cases, const fs::path& from, const fs::path& to) {
  const Json rows = Json::parse(std::ifstream(cases));
  const SafeTensors file(from);
  std::vector<std::pair<std::string, Tensor>> results;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    const DType dtype = *dtype_named(row.at("dtype").get<std::string>());
    Tensors in;
    Types types;
    std::vector<std::string> names{text(i, ".loss")};
    for (std::size_t k = 0; k < row.at("inputs"); ++k) {
      in.push_back(in_dtype(file.load(text(i, ".in", k)), dtype));
      if (is_floating(in[k].dtype())) names.push_back(text(i, ".din", k));
    }
    in.push_back(in_dtype(file.load(text(i, ".dloss")), dtype));
    for (const Tensor& x : in) types.push_back(x.type());
    const Loss loss = kLosses.at(row.at("loss"));
    const Tensors out = plan([&](const Tensors& x) { return loss_and_gradients(loss, row.at("options"), x); }, types,
                             {.training = true})(in);
    for (std::size_t k = 0; k < out.size(); ++k) results.emplace_back(names[k], out[k]);
  }
  write_safetensors(to, results);
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) {
  using namespace neurim;
  try {
    require(argc == 4, "usage: losses CASES.json IN.safetensors OUT.safetensors");
    initialize();
    run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::cerr << "losses: " << error.what() << '\n';
    return 1;
  }
}
