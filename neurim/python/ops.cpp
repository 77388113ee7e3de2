// Ops by name, with their attributes as keywords.
#include <set>

#include "neurim/python/bindings.h"

namespace neurim::python {

namespace {

/// Sets the attributes of an op from a dictionary.
class FromPython final : public Fields {
 public:
  FromPython(std::string_view op, const nb::dict& given) : op_(op), given_(given) {}

  FromPython& operator()(std::string_view name, std::int64_t& value) override { return set(name, value, "an integer"); }
  FromPython& operator()(std::string_view name, double& value) override { return set(name, value, "a number"); }
  FromPython& operator()(std::string_view name, bool& value) override { return set(name, value, "True or False"); }
  FromPython& operator()(std::string_view name, std::string& value) override { return set(name, value, "a text"); }
  FromPython& operator()(std::string_view name, std::vector<std::int64_t>& value) override {
    return set(name, value, "a list of integers");
  }
  FromPython& operator()(std::string_view name, std::vector<double>& value) override {
    return set(name, value, "a list of numbers");
  }
  FromPython& operator()(std::string_view name, Dim& value) override { return set(name, value, "an integer"); }
  FromPython& operator()(std::string_view name, std::vector<Dim>& value) override {
    return set(name, value, "a list of integers");
  }
  FromPython& operator()(std::string_view name, DType& value) override {
    std::string word{neurim::name(value)};
    set(name, word, "the name of a dtype");
    value = dtype_of(word);
    return *this;
  }

  /// Throws Error(usage) where something was given that the op does not have.
  void check_all_taken() const {
    for (const auto& [key, value] : given_)
      if (const auto name = nb::cast<std::string>(key); known_.count(name) == 0)
        fail(Fault::usage, op_, ": there is no attribute '", name, "'; it has ",
             known_.empty() ? "none" : join(std::vector<std::string>(known_.begin(), known_.end()), ", "));
  }

 private:
  template <class T>
  FromPython& set(std::string_view name, T& value, const char* kind) {
    const std::string key(name);
    known_.insert(key);
    if (!given_.contains(key.c_str())) return *this;
    T given;
    require(nb::try_cast(nb::handle(given_[key.c_str()]), given), op_, ": ", key, " has to be ", kind, ", not ",
            nb::cast<std::string>(nb::repr(given_[key.c_str()])));
    value = std::move(given);
    return *this;
  }

  std::string_view op_;
  const nb::dict& given_;
  std::set<std::string> known_;
};

/// The attributes of an op as a dictionary.
class ToPython final : public Fields {
 public:
  ToPython& operator()(std::string_view name, std::int64_t& value) override { return put(name, value); }
  ToPython& operator()(std::string_view name, double& value) override { return put(name, value); }
  ToPython& operator()(std::string_view name, bool& value) override { return put(name, value); }
  ToPython& operator()(std::string_view name, std::string& value) override { return put(name, value); }
  ToPython& operator()(std::string_view name, std::vector<std::int64_t>& value) override { return put(name, value); }
  ToPython& operator()(std::string_view name, std::vector<double>& value) override { return put(name, value); }
  ToPython& operator()(std::string_view name, Dim& value) override { return put(name, value); }
  ToPython& operator()(std::string_view name, std::vector<Dim>& value) override { return put(name, value); }
  ToPython& operator()(std::string_view name, DType& value) override {
    return put(name, std::string(neurim::name(value)));
  }
  nb::dict all;

 private:
  template <class T>
  ToPython& put(std::string_view name, const T& value) {
    all[std::string(name).c_str()] = nb::cast(value);
    return *this;
  }
};

nb::dict attributes_of(const Op& op) {
  ToPython reader;
  fields(op, reader);
  return reader.all;
}

std::shared_ptr<Op> op_of(const std::string& name, const nb::dict& attributes) {
  const std::vector<std::string> names = op_names();
  require(std::binary_search(names.begin(), names.end(), name), "there is no op '", name, "'; did you mean '",
          nearest(name, names), "'?");
  std::shared_ptr<Op> op = make_op(name);
  FromPython reader(name, attributes);
  op->fields(reader);
  reader.check_all_taken();
  return op;
}

/// A sample of the table of ops, for tests: attributes, and of each input dtype, shape, and how it is filled.
nb::tuple sample_of(const Sample& sample) {
  nb::list inputs;
  for (std::size_t i = 0; i < sample.in.size(); ++i) {
    const Fill fill = i < sample.fill.size() ? sample.fill[i] : Fill();
    nb::list sizes;
    for (const Dim& size : sample.in[i].shape) sizes.append(std::int64_t{size});
    inputs.append(
        nb::make_tuple(std::string(name(sample.in[i].dtype)), nb::tuple(sizes), fill.low, fill.high, fill.distinct));
  }
  return nb::make_tuple(attributes_of(*sample.op), inputs);
}

}  // namespace

void bind_ops(nb::module_& module) {
  module.def(
      "call",
      [](const std::string& name, const Tensors& inputs, const nb::dict& attributes) {
        const std::shared_ptr<Op> op = op_of(name, attributes);
        const nb::gil_scoped_release others_run;
        return neurim::apply(op, inputs);
      },
      nb::arg("name"), nb::arg("inputs"), nb::arg("attributes") = nb::dict());
  module.def("op_names", &op_names);
  module.def("op_attributes", [](const std::string& name) { return attributes_of(*op_of(name, nb::dict())); });
  module.def("op_samples", [](const std::string& name) {
    nb::list all;
    for (const Sample& sample : op_of(name, nb::dict())->samples())
      if (sample.op->bodies().empty()) all.append(sample_of(sample));
    return all;
  });
  module.def("seed_random", &seed_random);
  module.def("random_key", [] {
    const RandomKey key = next_random_key();
    return std::make_pair(key.key, key.ordinal);
  });
}

}  // namespace neurim::python
