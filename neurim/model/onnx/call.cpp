#include "neurim/model/onnx/call.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/operators.h"

namespace neurim {

const Tensor& OnnxCall::tensor(int input) const {
  const OnnxValue& value = in(input);
  require(value.is_tensor(), "input ", input, " is ", value, ", where a tensor of numbers is wanted");
  return value.tensor();
}

Tensors OnnxCall::tensors(int first) const {
  Tensors all;
  for (int i = first; i < inputs(); ++i) all.push_back(tensor(i));
  return all;
}

bool OnnxCall::known(int input) const { return !in(input).is_tensor() || !tensor(input).traced(); }

std::vector<std::int64_t> OnnxCall::integers(int input) const {
  if (!known(input)) throw OnnxNeedsData(text(op(), " needs the numbers of its input ", input));
  return tensor(input).values<std::int64_t>();
}

std::vector<Dim> OnnxCall::dims(int input) const {
  if (!known(input)) throw OnnxNeedsData(text(op(), " needs the numbers of its input ", input));
  return sizes_of(in(input));
}

std::vector<double> OnnxCall::numbers(int input) const {
  if (!known(input)) throw OnnxNeedsData(text(op(), " needs the numbers of its input ", input));
  return tensor(input).values<double>();
}

double OnnxCall::number(int input, double otherwise) const {
  if (!has(input)) return otherwise;
  const std::vector<double> all = numbers(input);
  require(all.size() == 1, "input ", input, " is ", in(input), ", where one number is wanted");
  return all[0];
}

std::int64_t OnnxCall::integer(int input, std::int64_t otherwise) const {
  if (!has(input)) return otherwise;
  const std::vector<std::int64_t> all = integers(input);
  require(all.size() == 1, "input ", input, " is ", in(input), ", where one number is wanted");
  return all[0];
}

std::vector<std::int64_t> OnnxCall::sizes(int input) const {
  const Shape& shape = in(input).shape();
  return {shape.begin(), shape.end()};
}

int OnnxCall::axis(std::int64_t axis, int input) const { return normal_axis(axis, in(input).shape().rank(), op()); }

std::vector<std::int64_t> OnnxCall::axes(int input) const {
  std::vector<std::int64_t> all = has(input) ? integers(input) : integers("axes");
  for (std::int64_t& each : all) each = axis(each);
  return all;
}

void OnnxOperators::add(std::string_view name, int since, OnnxRule rule, std::string_view domain) {
  const bool is_new = all_.emplace(domain.empty() ? std::string(name) : text(domain, '.', name),
                                   OnnxOperator{std::move(rule), since})
                          .second;
  NEURIM_ASSERT(is_new);
}

void OnnxOperators::add_random(std::string_view name, int since, OnnxRule rule) {
  add(name, since, std::move(rule));
  all_.find(name)->second.random = true;
}

const OnnxOperator* OnnxOperators::find(std::string_view domain, std::string_view name) const {
  const auto found = domain.empty() || domain == "ai.onnx" ? all_.find(name) : all_.find(text(domain, '.', name));
  return found == all_.end() ? nullptr : &found->second;
}

std::vector<std::pair<std::string, int>> OnnxOperators::list() const {
  std::vector<std::pair<std::string, int>> all;
  for (const auto& [name, op] : all_) all.emplace_back(name, op.since);
  return all;
}

const OnnxOperators& onnx_operators() {
  static const OnnxOperators& all = *[] {
    auto* made = new OnnxOperators;
    add_onnx_operators(*made);
    return made;
  }();
  return all;
}

}  // namespace neurim
