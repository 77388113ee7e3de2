#include "neurim/nn/init.h"

#include <algorithm>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/base/thread_pool.h"
#include "neurim/core/device.h"
#include "neurim/core/random.h"
#include "neurim/graph/value.h"

namespace neurim::nn {

namespace {

thread_local bool undrawn = false;
thread_local std::int64_t room = std::numeric_limits<std::int64_t>::max();  // values that may be left undrawn

struct NamedRule {
  std::string_view name;
  InitRule rule;
};
const NamedRule kRules[] = {{"fan_in_uniform", fan_in_uniform},
                            {"fan_out_normal", fan_out_normal},
                            {"kaiming_normal", [](const Shape& weight) { return kaiming_normal(weight); }},
                            {"kaiming_uniform", [](const Shape& weight) { return kaiming_uniform(weight); }},
                            {"xavier_normal", [](const Shape& weight) { return xavier_normal(weight); }},
                            {"xavier_uniform", [](const Shape& weight) { return xavier_uniform(weight); }},
                            {"zeros", zeros}};

struct Fans {
  double in, out;
};

Fans fans(const Shape& weight) {
  require(weight.rank() >= 2, "initialiser: a weight of shape ", weight,
          " has no fan; fans need two axes or more (outputs, inputs, kernel…)");
  double field = 1;
  for (int axis = 2; axis < weight.rank(); ++axis) field *= static_cast<double>(weight[axis]);
  return {static_cast<double>(weight[1]) * field, static_cast<double>(weight[0]) * field};
}

double kaiming_std(const Shape& weight, double a, Fan fan) {
  const Fans both = fans(weight);
  return std::sqrt(2 / (1 + a * a) / (fan == Fan::in ? both.in : both.out));
}

double xavier_std(const Shape& weight, double gain) {
  const Fans both = fans(weight);
  return gain * std::sqrt(2 / (both.in + both.out));
}

/// The uniform distribution around 0 with this std.
Init uniform_of(double std) {
  const double bound = std::sqrt(3.0) * std;
  return uniform(-bound, bound);
}

double draw(const Init& init, Random& random) {
  switch (init.kind) {
    case Init::uniform: return random.uniform(init.low, init.high);
    case Init::normal: return init.mean + init.std * random.normal();
    case Init::trunc_normal:
      for (;;) {
        const double value = init.mean + init.std * random.normal();
        if (value >= init.low && value <= init.high) return value;
      }
    default: return init.mean;
  }
}

/// FNV-1a, 64 bits: part of the definition of initial weights, so it must never change.
std::uint64_t hash(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace

Init constant(double value) { return {.kind = Init::constant, .mean = value}; }

Init uniform(double low, double high) { return {.kind = Init::uniform, .low = low, .high = high}; }

Init normal(double mean, double std) { return {.kind = Init::normal, .mean = mean, .std = std}; }

Init trunc_normal(double mean, double std, double low, double high) {
  auto below = [&](double x) { return 0.5 * std::erfc((mean - x) / (std * std::sqrt(2.0))); };
  require(below(high) - below(low) >= 1e-3, "trunc_normal: almost nothing of the normal distribution of mean ", mean,
          " and std ", std, " lies in [", low, ", ", high, "]; widen the bounds");
  return {.kind = Init::trunc_normal, .mean = mean, .std = std, .low = low, .high = high};
}

Init kaiming_uniform(const Shape& weight, double a, Fan fan) { return uniform_of(kaiming_std(weight, a, fan)); }
Init kaiming_normal(const Shape& weight, double a, Fan fan) { return normal(0, kaiming_std(weight, a, fan)); }
Init xavier_uniform(const Shape& weight, double gain) { return uniform_of(xavier_std(weight, gain)); }
Init xavier_normal(const Shape& weight, double gain) { return normal(0, xavier_std(weight, gain)); }

Init fan_in_uniform(const Shape& weight) {
  const double bound = 1 / std::sqrt(fans(weight).in);
  return uniform(-bound, bound);
}
Init fan_out_normal(const Shape& weight) { return kaiming_normal(weight, 0, Fan::out); }

Init zeros(const Shape&) { return constant(0); }

void field(Fields& f, std::string_view name, InitRule& rule) {
  std::string before;
  std::vector<std::string> known;
  for (const NamedRule& each : kRules) {
    if (each.rule == rule) before = each.name;
    known.emplace_back(each.name);
  }
  std::string word = before;
  f(name, word);
  if (word == before) return;
  const auto* found = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const NamedRule& r) { return r.name == word; });
  require(found != std::end(kRules), name, ": there is no '", word, "'; known are ", join(known, ", "));
  rule = found->rule;
}

void fill(const Tensor& tensor, const Init& init, std::uint64_t seed, std::string_view name) {
  if (init.kind == Init::keep) return;
  require(tensor.dtype() == DType::f32, name, ": initialisers fill f32 tensors; this one is ", tensor.type());
  constexpr std::size_t kChunk = 1 << 16;  // part of the definition of initial weights, as the hash
  std::vector<float> values(tensor.numel());
  compute_pool()->each(static_cast<int>((values.size() + kChunk - 1) / kChunk), [&](int part) {
    const std::size_t begin = static_cast<std::size_t>(part) * kChunk;
    const std::size_t end = std::min(begin + kChunk, values.size());
    Random random(seed, hash(name), static_cast<std::uint32_t>(part));
    for (std::size_t i = begin; i < end; ++i) values[i] = static_cast<float>(draw(init, random));
  });
  if (init.zero_row >= 0) {
    const std::int64_t row = tensor.numel() / tensor.size(0);
    std::fill_n(values.begin() + init.zero_row * row, row, 0.f);
  }
  tensor.write(values.data());
}

Tensor parameter(const Shape& shape, const Init& init) {
  thread_local std::uint64_t ordinal = 0;
  if (undrawn) {
    require(shape.numel() <= room, "the parameters come to more values than may be: the next is ", shape,
            " and there is room for ", room);
    room -= shape.numel();
  }
  Tensor tensor = Tensor::empty({DType::f32, shape});
  tensor.value()->parameter = true;
  if (!undrawn) fill(tensor, init, ordinal++, "");
  return tensor;
}

Undrawn::Undrawn(std::int64_t most) : outer_(undrawn), outer_room_(room), room_(std::min(room, most)) {
  undrawn = true;
  room = room_;
}
Undrawn::~Undrawn() {
  undrawn = outer_;
  room = outer_room_ - (outer_ ? room_ - room : 0);
}

}  // namespace neurim::nn
