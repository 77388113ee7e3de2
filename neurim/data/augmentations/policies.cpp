#include "neurim/data/augmentations/policies.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/data/augmentations/draws.h"
#include "neurim/data/augmentations/filters.h"
#include "neurim/data/augmentations/geometry.h"
#include "neurim/data/augmentations/pixel_values.h"

namespace neurim {
namespace {

constexpr double kFullLevel = 10;

double either_sign(double value, Random& random) { return happens(0.5, random) ? -value : value; }

struct Choice {
  Operation operation;
  double probability;
  int level;
};
using Pairs = std::array<std::array<Choice, 2>, 25>;

// The policies' own words for the operations keep the tables readable.
constexpr Operation kAutoContrast = Operation::autocontrast, kEqualize = Operation::equalize,
                    kInvert = Operation::invert, kRotate = Operation::rotate, kPosterize = Operation::posterize,
                    kSolarize = Operation::solarize, kColor = Operation::color, kContrast = Operation::contrast,
                    kBrightness = Operation::brightness, kSharpness = Operation::sharpness,
                    kShearX = Operation::shear_x, kShearY = Operation::shear_y, kTranslateX = Operation::translate_x,
                    kTranslateY = Operation::translate_y;

// clang-format off
constexpr Pairs kImageNet{{
    {{{kPosterize, 0.4, 8}, {kRotate, 0.6, 9}}},      {{{kSolarize, 0.6, 5}, {kAutoContrast, 0.6, 0}}},
    {{{kEqualize, 0.8, 0}, {kEqualize, 0.6, 0}}},     {{{kPosterize, 0.6, 7}, {kPosterize, 0.6, 6}}},
    {{{kEqualize, 0.4, 0}, {kSolarize, 0.2, 4}}},     {{{kEqualize, 0.4, 0}, {kRotate, 0.8, 8}}},
    {{{kSolarize, 0.6, 3}, {kEqualize, 0.6, 0}}},     {{{kPosterize, 0.8, 5}, {kEqualize, 1.0, 0}}},
    {{{kRotate, 0.2, 3}, {kSolarize, 0.6, 8}}},       {{{kEqualize, 0.6, 0}, {kPosterize, 0.4, 6}}},
    {{{kRotate, 0.8, 8}, {kColor, 0.4, 0}}},          {{{kRotate, 0.4, 9}, {kEqualize, 0.6, 0}}},
    {{{kEqualize, 0.0, 0}, {kEqualize, 0.8, 0}}},     {{{kInvert, 0.6, 0}, {kEqualize, 1.0, 0}}},
    {{{kColor, 0.6, 4}, {kContrast, 1.0, 8}}},        {{{kRotate, 0.8, 8}, {kColor, 1.0, 2}}},
    {{{kColor, 0.8, 8}, {kSolarize, 0.8, 7}}},        {{{kSharpness, 0.4, 7}, {kInvert, 0.6, 0}}},
    {{{kShearX, 0.6, 5}, {kEqualize, 1.0, 0}}},       {{{kColor, 0.4, 0}, {kEqualize, 0.6, 0}}},
    {{{kEqualize, 0.4, 0}, {kSolarize, 0.2, 4}}},     {{{kSolarize, 0.6, 5}, {kAutoContrast, 0.6, 0}}},
    {{{kInvert, 0.6, 0}, {kEqualize, 1.0, 0}}},       {{{kColor, 0.6, 4}, {kContrast, 1.0, 8}}},
    {{{kEqualize, 0.8, 0}, {kEqualize, 0.6, 0}}},
}};
constexpr Pairs kCifar10{{
    {{{kInvert, 0.1, 0}, {kContrast, 0.2, 6}}},       {{{kRotate, 0.7, 2}, {kTranslateX, 0.3, 9}}},
    {{{kSharpness, 0.8, 1}, {kSharpness, 0.9, 3}}},   {{{kShearY, 0.5, 8}, {kTranslateY, 0.7, 9}}},
    {{{kAutoContrast, 0.5, 0}, {kEqualize, 0.9, 0}}}, {{{kShearY, 0.2, 7}, {kPosterize, 0.3, 7}}},
    {{{kColor, 0.4, 3}, {kBrightness, 0.6, 7}}},      {{{kSharpness, 0.3, 9}, {kBrightness, 0.7, 9}}},
    {{{kEqualize, 0.6, 0}, {kEqualize, 0.5, 0}}},     {{{kContrast, 0.6, 7}, {kSharpness, 0.6, 5}}},
    {{{kColor, 0.7, 7}, {kTranslateX, 0.5, 8}}},      {{{kEqualize, 0.3, 0}, {kAutoContrast, 0.4, 0}}},
    {{{kTranslateY, 0.4, 3}, {kSharpness, 0.2, 6}}},  {{{kBrightness, 0.9, 6}, {kColor, 0.2, 8}}},
    {{{kSolarize, 0.5, 2}, {kInvert, 0.0, 0}}},       {{{kEqualize, 0.2, 0}, {kAutoContrast, 0.6, 0}}},
    {{{kEqualize, 0.2, 0}, {kEqualize, 0.6, 0}}},     {{{kColor, 0.9, 9}, {kEqualize, 0.6, 0}}},
    {{{kAutoContrast, 0.8, 0}, {kSolarize, 0.2, 8}}}, {{{kBrightness, 0.1, 3}, {kColor, 0.7, 0}}},
    {{{kSolarize, 0.4, 5}, {kAutoContrast, 0.9, 0}}}, {{{kTranslateY, 0.9, 9}, {kTranslateY, 0.7, 9}}},
    {{{kAutoContrast, 0.9, 0}, {kSolarize, 0.8, 3}}}, {{{kEqualize, 0.8, 0}, {kInvert, 0.1, 0}}},
    {{{kTranslateY, 0.7, 9}, {kAutoContrast, 0.9, 0}}},
}};
constexpr Pairs kSvhn{{
    {{{kShearX, 0.9, 4}, {kInvert, 0.2, 0}}},         {{{kShearY, 0.9, 8}, {kInvert, 0.7, 0}}},
    {{{kEqualize, 0.6, 0}, {kSolarize, 0.6, 6}}},     {{{kInvert, 0.9, 0}, {kEqualize, 0.6, 0}}},
    {{{kEqualize, 0.6, 0}, {kRotate, 0.9, 3}}},       {{{kShearX, 0.9, 4}, {kAutoContrast, 0.8, 0}}},
    {{{kShearY, 0.9, 8}, {kInvert, 0.4, 0}}},         {{{kShearY, 0.9, 5}, {kSolarize, 0.2, 6}}},
    {{{kInvert, 0.9, 0}, {kAutoContrast, 0.8, 0}}},   {{{kEqualize, 0.6, 0}, {kRotate, 0.9, 3}}},
    {{{kShearX, 0.9, 4}, {kSolarize, 0.3, 3}}},       {{{kShearY, 0.8, 8}, {kInvert, 0.7, 0}}},
    {{{kEqualize, 0.9, 0}, {kTranslateY, 0.6, 6}}},   {{{kInvert, 0.9, 0}, {kEqualize, 0.6, 0}}},
    {{{kContrast, 0.3, 3}, {kRotate, 0.8, 4}}},       {{{kInvert, 0.8, 0}, {kTranslateY, 0.0, 2}}},
    {{{kShearY, 0.7, 6}, {kSolarize, 0.4, 8}}},       {{{kInvert, 0.6, 0}, {kRotate, 0.8, 4}}},
    {{{kShearY, 0.3, 7}, {kTranslateX, 0.9, 3}}},     {{{kShearX, 0.1, 6}, {kInvert, 0.6, 0}}},
    {{{kSolarize, 0.7, 2}, {kTranslateY, 0.6, 7}}},   {{{kShearY, 0.8, 4}, {kInvert, 0.8, 0}}},
    {{{kShearX, 0.7, 9}, {kTranslateY, 0.8, 3}}},     {{{kShearY, 0.8, 5}, {kAutoContrast, 0.7, 0}}},
    {{{kShearX, 0.7, 2}, {kInvert, 0.1, 0}}},
}};
// clang-format on

/// The value of an operation at a part of its range in [0, 1], as torchvision counts: `most` is the full
/// range of what takes either sign.
double signed_value(Operation operation, double most, double part, Random& random) {
  const double value = either_sign(most * part, random);
  const bool factor = operation >= Operation::color && operation <= Operation::sharpness;
  return factor ? 1 + value : value;
}

double auto_value(const Choice& choice, int height, int width, Random& random) {
  const double part = choice.level / 9.0;
  switch (choice.operation) {
    case Operation::posterize: return 8 - std::nearbyint(4 * part);
    case Operation::solarize: return 255 - 255 * part;
    case Operation::rotate: return signed_value(choice.operation, 30, part, random);
    case Operation::shear_x:
    case Operation::shear_y: return signed_value(choice.operation, 0.3, part, random);
    case Operation::translate_x: return signed_value(choice.operation, 150.0 / 331 * width, part, random);
    case Operation::translate_y: return signed_value(choice.operation, 150.0 / 331 * height, part, random);
    case Operation::color:
    case Operation::contrast:
    case Operation::brightness:
    case Operation::sharpness: return signed_value(choice.operation, 0.9, part, random);
    default: return 0;
  }
}

double draw_level(double magnitude, double std, double largest, Random& random) {
  if (std > 100) {
    magnitude = random.uniform(0, magnitude);
  } else if (std > 0) {
    magnitude += std * random.normal();
  }
  return std::clamp(magnitude, 0.0, largest);
}

/// The value of an operation at a level of RandAugment and AugMix, as timm counts.
double rand_value(Operation operation, double level, bool increasing, int height, int width, Random& random) {
  const double part = level / kFullLevel;
  switch (operation) {
    case Operation::rotate: return either_sign(30 * part, random);
    case Operation::shear_x:
    case Operation::shear_y: return either_sign(0.3 * part, random);
    case Operation::translate_x: return either_sign(0.45 * part * width, random);
    case Operation::translate_y: return either_sign(0.45 * part * height, random);
    case Operation::posterize: {
      const int bits = static_cast<int>(part * 4);
      return std::clamp(increasing ? 4 - bits : bits, 0, 8);
    }
    case Operation::solarize: {
      const int threshold = std::min(static_cast<int>(part * 256), 256);
      return increasing ? 256 - threshold : threshold;
    }
    case Operation::solarize_add: return std::min(static_cast<int>(part * 110), 128);
    case Operation::color:
    case Operation::contrast:
    case Operation::brightness:
    case Operation::sharpness:
      return increasing ? std::max(0.1, 1 + either_sign(0.9 * part, random)) : 0.1 + 1.8 * part;
    default: return 0;
  }
}

struct Weighted {
  Operation operation;
  double weight;  // timm's w0
};
constexpr std::array<Weighted, 15> kRandOperations{{{Operation::autocontrast, 0.025},
                                                    {Operation::equalize, 0.005},
                                                    {Operation::invert, 0},
                                                    {Operation::rotate, 0.3},
                                                    {Operation::posterize, 0},
                                                    {Operation::solarize, 0.005},
                                                    {Operation::solarize_add, 0.005},
                                                    {Operation::color, 0.025},
                                                    {Operation::contrast, 0.005},
                                                    {Operation::brightness, 0.005},
                                                    {Operation::sharpness, 0.025},
                                                    {Operation::shear_x, 0.2},
                                                    {Operation::shear_y, 0.2},
                                                    {Operation::translate_x, 0.1},
                                                    {Operation::translate_y, 0.1}}};
constexpr int kChoosable = 13;  // those of a weight above 0

constexpr std::array kAugMixOperations{
    Operation::autocontrast, Operation::color,       Operation::contrast,   Operation::brightness, Operation::sharpness,
    Operation::equalize,     Operation::rotate,      Operation::posterize,  Operation::solarize,   Operation::shear_x,
    Operation::shear_y,      Operation::translate_x, Operation::translate_y};

/// An index with a probability in proportion to its weight, which becomes 0.
std::size_t take_weighted(std::array<double, kRandOperations.size()>& weights, Random& random) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  double left = random.uniform() * sum;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    chosen = i;  // rounding must not run past the last one
    if (left < weights[i]) break;
    left -= weights[i];
  }
  weights[chosen] = 0;
  return chosen;
}

/// The options of a text like "rand-m9-mstd0.5": calls set(key, value, section) for each section after the
/// name. No key comes twice.
template <class Set>
void parse_sections(std::string_view text, std::string_view name, const Set& set) {
  require(text == name || starts_with(text, std::string(name) + "-"), "changes: \"", std::string(text),
          "\" does not begin with ", std::string(name), "-");
  std::set<std::string> keys;
  std::string_view rest = text.substr(name.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);
    std::size_t letters = 0;
    while (letters < rest.size() && rest[letters] >= 'a' && rest[letters] <= 'z') ++letters;
    // A minus sign right after the letters belongs to the number ("d-1").
    const std::size_t end = std::min(rest.find('-', letters + 1), rest.size());
    const std::string section(rest.substr(0, end));
    double value = std::numeric_limits<double>::quiet_NaN();
    const char* last = section.data() + section.size();
    const auto read = std::from_chars(section.data() + std::min(letters, section.size()), last, value);
    require(read.ec == std::errc() && read.ptr == last && letters > 0, "changes: section \"", section, "\" of ",
            std::string(text), " is not letters and a number, as m9 is");
    const std::string key = section.substr(0, letters);
    require(keys.insert(key).second, "changes: ", std::string(text), " says ", key, " twice; leave one of them");
    set(key, value, section);
    rest.remove_prefix(end);
  }
}

double in_range(const char* what, double value, double low, double high, bool whole = false) {
  require(value >= low && value <= high && (!whole || value == std::floor(value)), what, " is ", value, "; it is a ",
          whole ? "whole " : "", "number in [", low, ", ", high, "]");
  return value;
}

[[noreturn]] void unknown_section(const std::string& section, std::string_view of,
                                  const std::vector<std::string>& keys) {
  fail(Fault::usage, "changes: ", std::string(of), " knows no section \"", section, "\"; it has ", join(keys, ", "));
}

}  // namespace

void apply_step(const Step& step, Image& image, Scratch& scratch) {
  const double value = step.value;
  const auto move = [&](const Warp& by) { warp(by, Interpolation::bilinear, kPolicyFill, image, scratch); };
  switch (step.operation) {
    case Operation::identity: return;
    case Operation::autocontrast: return autocontrast(image);
    case Operation::equalize: return equalize(image);
    case Operation::invert: return invert(image);
    case Operation::rotate: return move(rotation(value, image.height(), image.width()));
    case Operation::posterize: return posterize(image, static_cast<int>(value));
    case Operation::solarize: return solarize(image, static_cast<int>(std::ceil(value)));
    case Operation::solarize_add: return solarize_add(image, static_cast<int>(value));
    case Operation::color: return adjust_saturation(image, value);
    case Operation::contrast: return adjust_contrast(image, value);
    case Operation::brightness: return adjust_brightness(image, value);
    case Operation::sharpness: return adjust_sharpness(image, value, scratch);
    case Operation::shear_x: return move({1, value, 0, 0, 1, 0, 0, 0, 1});
    case Operation::shear_y: return move({1, 0, 0, value, 1, 0, 0, 0, 1});
    case Operation::translate_x: return move({1, 0, -std::trunc(value), 0, 1, 0, 0, 0, 1});
    case Operation::translate_y: return move({1, 0, 0, 0, 1, -std::trunc(value), 0, 0, 1});
  }
}

Steps draw_auto_augment(AutoPolicy policy, int height, int width, Random& random) {
  const Pairs& pairs = policy == AutoPolicy::imagenet ? kImageNet : policy == AutoPolicy::cifar10 ? kCifar10 : kSvhn;
  Steps steps;
  for (const Choice& choice : pairs[random.below(static_cast<std::uint32_t>(pairs.size()))]) {
    const bool chosen = happens(choice.probability, random);
    const double value = auto_value(choice, height, width, random);
    if (chosen) steps.add({choice.operation, value});
  }
  return steps;
}

Steps draw_rand_augment(const RandAugment& options, int height, int width, Random& random) {
  std::array<double, kRandOperations.size()> weights;
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = kRandOperations[i].weight;
  Steps steps;
  for (int i = 0; i < options.count; ++i) {
    const std::size_t chosen = options.weighted ? take_weighted(weights, random)
                                                : random.below(static_cast<std::uint32_t>(weights.size()));
    const Operation operation = kRandOperations[chosen].operation;
    const bool applied = happens(options.probability, random);
    const double level = draw_level(options.magnitude, options.std, options.largest, random);
    const double value = rand_value(operation, level, options.increasing, height, width, random);
    if (applied) steps.add({operation, value});
  }
  return steps;
}

RandAugment parse_rand_augment(std::string_view text) {
  RandAugment options;
  parse_sections(text, "rand", [&](const std::string& key, double value, const std::string& section) {
    if (key == "m")
      options.magnitude = in_range("rand: m (magnitude)", value, 0, 100);
    else if (key == "mstd")
      options.std = in_range("rand: mstd (std of m)", value, 0, 1000);
    else if (key == "mmax")
      options.largest = in_range("rand: mmax (largest level)", value, 0, 100);
    else if (key == "inc")
      options.increasing = in_range("rand: inc (increasing)", value, 0, 1, true) == 1;
    else if (key == "n")
      options.count = static_cast<int>(in_range("rand: n (operations)", value, 1, kChoosable, true));
    else if (key == "p")
      options.probability = in_range("rand: p (probability)", value, 0, 1);
    else if (key == "w")
      options.weighted = in_range("rand: w (set of weights)", value, 0, 0, true) == 0;
    else
      unknown_section(section, text, {"m", "mstd", "mmax", "inc", "n", "p", "w"});
  });
  return options;
}

std::string to_text(const RandAugment& options) {
  return text("rand-m", options.magnitude, "-mstd", options.std, "-mmax", options.largest, "-inc",
              options.increasing ? 1 : 0, "-n", options.count, "-p", options.probability,
              options.weighted ? "-w0" : "");
}

Step draw_trivial_augment(Random& random) {
  constexpr std::array kOperations{Operation::identity,     Operation::shear_x,     Operation::shear_y,
                                   Operation::translate_x,  Operation::translate_y, Operation::rotate,
                                   Operation::brightness,   Operation::color,       Operation::contrast,
                                   Operation::sharpness,    Operation::posterize,   Operation::solarize,
                                   Operation::autocontrast, Operation::equalize};
  constexpr std::uint32_t kMagnitudes = 31;
  const Operation operation = kOperations[random.below(static_cast<std::uint32_t>(kOperations.size()))];
  const auto part = [&] { return random.below(kMagnitudes) / static_cast<double>(kMagnitudes - 1); };
  double most = 0;
  switch (operation) {
    case Operation::identity:
    case Operation::autocontrast:
    case Operation::equalize: return {operation, 0};
    case Operation::posterize: return {operation, 8 - std::nearbyint(6 * part())};
    case Operation::solarize: return {operation, 255 - 255 * part()};
    case Operation::rotate: most = 135; break;
    case Operation::translate_x:
    case Operation::translate_y: most = 32; break;
    default: most = 0.99;
  }
  const double share = part();
  return {operation, signed_value(operation, most, share, random)};
}

void apply_aug_mix(const AugMix& options, Image& image, Scratch& scratch, Random& random) {
  std::array<double, kMaxSteps> weights;
  const std::size_t width = static_cast<std::size_t>(options.width), levels = image.size().bytes();
  dirichlet_variate(options.alpha, random, std::span(weights).first(width));
  const float share = static_cast<float>(beta_variate(options.alpha, random));
  if (scratch.sums.size() < levels) scratch.sums.resize(levels);
  std::fill_n(scratch.sums.begin(), levels, 0.0f);
  for (std::size_t i = 0; i < width; ++i) {
    scratch.chain.reshape(image.size());
    std::copy_n(image.data(), levels, scratch.chain.data());
    const int depth = options.depth > 0 ? options.depth : 1 + static_cast<int>(random.below(3));
    for (int k = 0; k < depth; ++k) {
      const Operation operation = kAugMixOperations[random.below(static_cast<std::uint32_t>(kAugMixOperations.size()))];
      const double level = draw_level(options.magnitude, options.std, kFullLevel, random);
      apply_step({operation, rand_value(operation, level, true, image.height(), image.width(), random)}, scratch.chain,
                 scratch);
    }
    const float weight = static_cast<float>(weights[i]);
    for (std::size_t j = 0; j < levels; ++j) scratch.sums[j] += weight * static_cast<float>(scratch.chain.data()[j]);
  }
  for (std::size_t j = 0; j < levels; ++j) {
    const float own = static_cast<float>(image.data()[j]);
    const float level = own + share * (scratch.sums[j] - own) + 0.5f;
    image.data()[j] = static_cast<std::uint8_t>(std::clamp(level, 0.0f, 255.0f));
  }
}

AugMix parse_aug_mix(std::string_view text) {
  AugMix options;
  parse_sections(text, "augmix", [&](const std::string& key, double value, const std::string& section) {
    if (key == "m")
      options.magnitude = in_range("augmix: m (magnitude)", value, 0, kFullLevel);
    else if (key == "w")
      options.width = static_cast<int>(in_range("augmix: w (width)", value, 1, kMaxSteps, true));
    else if (key == "d")
      options.depth = value == -1 ? -1
                                  : static_cast<int>(in_range("augmix: d (depth, or -1)", value, 1, kMaxSteps, true));
    else if (key == "a")
      options.alpha = in_range("augmix: a (alpha)", value, 0.01, 100);
    else if (key == "mstd")
      options.std = in_range("augmix: mstd (std of m)", value, 0, 1000);
    else
      unknown_section(section, text, {"m", "w", "d", "a", "mstd"});
  });
  return options;
}

std::string to_text(const AugMix& options) {
  return text("augmix-m", options.magnitude, "-w", options.width, "-d", options.depth, "-a", options.alpha, "-mstd",
              options.std);
}

}  // namespace neurim
