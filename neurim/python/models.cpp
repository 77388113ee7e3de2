// Models by name, modules of Python as models, and models that answer.
#include "neurim/infer/session.h"
#include "neurim/python/bindings.h"

namespace neurim::python {

namespace {

using NamedTensor = std::tuple<std::string, Tensor, bool>;  // the last: whether it is learnt

/// A module of Python as the network of a model.
struct PythonNet {
  std::shared_ptr<nb::object> call;  // tensor -> tensor
  std::vector<NamedTensor> tensors;

  void parts(Parts& p) {
    for (auto& [name, tensor, learnt] : tensors) p(name, tensor, learnt ? Role::weight : Role::state);
  }
  Tensor operator()(const Tensor& x) const {
    const nb::gil_scoped_acquire lock;
    Tensor logits;
    const nb::object said = (*call)(x);
    require(nb::try_cast(said, logits), "a network has to return a tensor, the logits of each class; forward returned ",
            nb::cast<std::string>(said.type().attr("__name__")));
    return logits;
  }
};

std::vector<NamedTensor> tensors_of(const Model& model) {
  std::vector<NamedTensor> all;
  for (const Parameter& one : named_parameters(model)) all.emplace_back(one.name, one.tensor, one.role == Role::weight);
  return all;
}

nb::list ports(const std::vector<OnnxPort>& all) {
  nb::list names;
  for (const OnnxPort& port : all) names.append(port.name);
  return names;
}

}  // namespace

void bind_models(nb::module_& module) {
  nb::class_<Model>(module, "Model")
      .def_ro("name", &Model::name)
      .def_ro("image_size", &Model::image_size)
      .def_ro("in_chans", &Model::in_chans)
      .def_ro("num_classes", &Model::num_classes)
      .def_ro("mean", &Model::mean)
      .def_ro("std", &Model::std)
      .def("tensors", &tensors_of)
      .def("__call__",
           [](const Model& model, const Tensor& x) {
             const nb::gil_scoped_release others_run;
             return model(x);
           })
      .def("save", [](Model& model, const std::string& path) { save_model(model, path); })
      .def("load", [](Model& model, const std::string& path, bool adapt) {
        const Weights weights = open_weights(path);
        if (weights.config && !adapt) model.targets = weights.config->targets;
        return load_model(model, weights.tensors, adapt ? Fit::adapt : Fit::exact).notes;
      });
  module.def(
      "create_model",
      [](const std::string& name, std::int64_t num_classes, std::int64_t in_chans, std::optional<double> dropout,
         std::optional<double> drop_path, std::int64_t image_size, std::uint64_t seed) {
        return create_model(name, {num_classes, in_chans, dropout, drop_path, image_size, seed});
      },
      nb::arg("name"), nb::arg("num_classes"), nb::arg("in_chans"), nb::arg("dropout").none(),
      nb::arg("drop_path").none(), nb::arg("image_size"), nb::arg("seed"));
  module.def("model_names", &model_names);
  module.def("save_safetensors",
             [](const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors) {
               const nb::gil_scoped_release others_run;
               write_safetensors(path, tensors);
             });
  module.def("load_safetensors", [](const std::string& path) {
    const nb::gil_scoped_release others_run;
    const SafeTensors file(path);
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const std::string& name : file.names()) tensors.emplace_back(name, file.load(name));
    return tensors;
  });
  module.def("model_of", [](const std::string& name, nb::object call, std::vector<NamedTensor> tensors,
                            std::int64_t image_size, std::int64_t in_chans, std::int64_t num_classes) {
    return Model{.name = name,
                 .image_size = image_size,
                 .in_chans = in_chans,
                 .num_classes = num_classes,
                 .mean = std::vector<double>(static_cast<std::size_t>(in_chans), 0.0),
                 .std = std::vector<double>(static_cast<std::size_t>(in_chans), 1.0),
                 .net = PythonNet{held(std::move(call)), std::move(tensors)}};
  });
  nb::class_<InferenceSession>(module, "Session")
      .def_static("open", [](const std::string& path) { return InferenceSession::open(path); })
      .def_prop_ro("inputs", [](const InferenceSession& s) { return ports(s.inputs()); })
      .def_prop_ro("outputs", [](const InferenceSession& s) { return ports(s.outputs()); })
      .def("run", [](const InferenceSession& session, const Tensors& in) {
        const nb::gil_scoped_release others_run;
        return session.run(in);
      });
}

}  // namespace neurim::python
