#include "neurim/graph/op.h"

#include <map>

#include "neurim/base/error.h"

namespace neurim {

namespace {

std::map<std::string, OpFactory, std::less<>>& factories() {
  static auto& all = *new std::map<std::string, OpFactory, std::less<>>;
  return all;
}

/// Prints attributes as "name=value", space between.
class Printer final : public Fields {
 public:
  std::string out;
  Fields& operator()(std::string_view name, std::int64_t& value) override { return print(name, text(value)); }
  Fields& operator()(std::string_view name, double& value) override { return print(name, text(value)); }
  Fields& operator()(std::string_view name, bool& value) override { return print(name, text(value)); }
  Fields& operator()(std::string_view name, std::string& value) override { return print(name, value); }
  Fields& operator()(std::string_view name, DType& value) override { return print(name, text(value)); }
  Fields& operator()(std::string_view name, std::vector<std::int64_t>& value) override { return list(name, value); }
  Fields& operator()(std::string_view name, std::vector<double>& value) override { return list(name, value); }

 private:
  Fields& print(std::string_view name, std::string_view value) {
    out += text(out.empty() ? "" : " ", name, '=', value);
    return *this;
  }
  template <class T>
  Fields& list(std::string_view name, const std::vector<T>& values) {
    std::vector<std::string> parts;
    for (const T& value : values) parts.push_back(text(value));
    return print(name, text('[', join(parts, ","), ']'));
  }
};

}  // namespace

void fields(const Op& op, Fields& reader) { const_cast<Op&>(op).fields(reader); }

std::string formula_name(const Op& op) {
  const std::string_view variant = op.formula().variant;
  return variant.empty() ? std::string(op.name()) : text(op.name(), ' ', variant);
}

std::string attributes(const std::function<void(Fields&)>& visit) {
  Printer printer;
  visit(printer);
  return printer.out.empty() ? "" : '{' + printer.out + '}';
}

std::string attributes(const Op& op) {
  return attributes([&](Fields& printer) { fields(op, printer); });
}

std::string data_fault_of(const Op& op, std::span<const Tensor> in) {
  const std::string found = op.data_fault(in);
  return text(op.name(), ": ", found.empty() ? "an index or a label is outside its range" : found);
}

void define(OpFactory factory) {
  const std::string name(factory()->name());
  require(factories().emplace(name, factory).second, "there is an op '", name, "' already; give yours another name");
}

std::shared_ptr<Op> make_op(std::string_view name) {
  require(!factories().empty(), "no ops are registered; call neurim::initialize() first");
  const auto at = factories().find(name);
  NEURIM_ASSERT(at != factories().end());
  return at->second();
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories()) names.push_back(name);
  return names;
}

}  // namespace neurim
