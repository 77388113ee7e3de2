#include "neurim/data/augmentations/augmentations.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "neurim/base/error.h"
#include "neurim/data/augmentations/draws.h"
#include "neurim/data/augmentations/erase.h"
#include "neurim/data/augmentations/faults.h"
#include "neurim/data/augmentations/filters.h"
#include "neurim/data/augmentations/geometry.h"
#include "neurim/data/augmentations/pixel_values.h"
#include "neurim/data/augmentations/policies.h"

namespace neurim {
namespace {

constexpr std::size_t kMostArguments = 6;
using Values = std::array<double, kMostArguments>;

struct Target {
  Image& image;
  Scratch& scratch;
  Random& random;
};

struct Argument {
  enum Kind { real, whole, odd, level_or_noise, low_of_pair };  // low_of_pair: not above the next one
  const char* name;
  double low, high;
  std::optional<double> preset{};
  Kind kind = real;
};

struct Entry {
  const char* name;
  std::vector<Argument> arguments;
  void (*apply)(const Values& values, const Target& target);
  bool moves_only = false;
};

Argument probability(double preset) { return {"p", 0, 1, preset}; }
const Argument kFillBlack{"fill", 0, 255, 0, Argument::whole};

double symmetric(double most, Random& random) { return random.uniform(-most, most); }

void change_bilinear(const Warp& by, double fill, const Target& to) {
  warp(by, Interpolation::bilinear, static_cast<std::uint8_t>(fill), to.image, to.scratch);
}

void apply_affine(const Values& v, const Target& to) {
  const double height = to.image.height(), width = to.image.width();
  const double degrees = symmetric(v[0], to.random);
  // One after the other: the order of evaluation of arguments is not fixed.
  const double right = std::nearbyint(symmetric(v[1] * width, to.random));
  const double down = std::nearbyint(symmetric(v[1] * height, to.random));
  const double scale = to.random.uniform(v[2], v[3]), shear = symmetric(v[4], to.random);
  change_bilinear(affine(degrees, {right, down}, scale, shear, 0, {width / 2, height / 2}), v[5], to);
}

void apply_perspective(const Values& v, const Target& to) {
  if (!happens(v[1], to.random)) return;
  const double right = to.image.width() - 1, bottom = to.image.height() - 1;
  if (right < 1 || bottom < 1) return;  // a line has no corners to pull apart
  const auto step = [&](double side) {  // whole pixels inward, up to distortion * half of the side
    return to.random.below(static_cast<std::uint32_t>(v[0] * std::floor((side + 1) / 2)) + 1);
  };
  const std::array<Point, 4> from{{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
  std::array<Point, 4> corners = from;
  for (Point& corner : corners) {
    const double x = step(right), y = step(bottom);
    corner = {corner.x == 0 ? x : corner.x - x, corner.y == 0 ? y : corner.y - y};
  }
  // A small image's corners may meet or fall in a line; it stays as it is.
  for (std::size_t k = 0; k < 4; ++k) {
    const Point a = corners[k], b = corners[(k + 1) % 4], c = corners[(k + 2) % 4];
    if ((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x) < 1) return;
  }
  change_bilinear(perspective(from, corners), v[2], to);
}

void apply_jitter(const Values& v, const Target& to) {
  std::array<int, 4> order{0, 1, 2, 3};
  shuffle(order, to.random);
  std::array<double, 4> drawn;
  for (std::size_t i = 0; i < 3; ++i) drawn[i] = to.random.uniform(std::max(1 - v[i], 0.0), 1 + v[i]);
  drawn[3] = symmetric(v[3], to.random);
  for (const int i : order) {
    if (v[i] == 0) continue;
    switch (i) {
      case 0: adjust_brightness(to.image, drawn[0]); break;
      case 1: adjust_contrast(to.image, drawn[1]); break;
      case 2: adjust_saturation(to.image, drawn[2]); break;
      default: adjust_hue(to.image, drawn[3]);
    }
  }
}

/// A change without magnitudes, whose only argument is its probability.
template <void (*augmentation)(Image&)>
void apply_maybe(const Values& v, const Target& to) {
  if (happens(v[0], to.random)) augmentation(to.image);
}

/// A change by a uniform factor: low, high, p.
template <auto augmentation>
void apply_factor(const Values& v, const Target& to) {
  if (!happens(v[2], to.random)) return;
  const double factor = to.random.uniform(v[0], v[1]);
  if constexpr (std::is_invocable_v<decltype(augmentation), Image&, double, Scratch&>) {
    augmentation(to.image, factor, to.scratch);
  } else {
    augmentation(to.image, factor);
  }
}

void gamma_of(Image& image, double gamma) { adjust_gamma(image, gamma); }

void apply_noise(const Values& v, const Target& to) {
  if (happens(v[1], to.random)) add_noise(to.image, v[0], to.random);
}

void apply_jpeg(const Values& v, const Target& to) {
  if (happens(v[2], to.random)) as_jpeg(to.image, static_cast<int>(std::lround(to.random.uniform(v[0], v[1]))));
}

std::vector<Argument> factor_arguments() {
  return {{"low", 0, 100, {}, Argument::low_of_pair}, {"high", 0, 100}, probability(1)};
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list{
      {"hflip", {probability(0.5)}, apply_maybe<flip_horizontally>, true},
      {"vflip", {probability(0.5)}, apply_maybe<flip_vertically>, true},
      {"rotate",
       {{"degrees", 0, 180}, kFillBlack},
       [](const Values& v, const Target& to) {
         const double degrees = symmetric(v[0], to.random);
         change_bilinear(rotation(degrees, to.image.height(), to.image.width()), v[1], to);
       },
       true},
      {"affine",
       {{"degrees", 0, 180},
        {"translate", 0, 1, 0},
        {"scale_low", 0.01, 100, 1, Argument::low_of_pair},
        {"scale_high", 0.01, 100, 1},
        {"shear", 0, 89, 0},
        kFillBlack},
       apply_affine,
       true},
      {"perspective", {{"distortion", 0, 1, 0.5}, probability(0.5), kFillBlack}, apply_perspective, true},
      {"jitter", {{"brightness", 0, 100}, {"contrast", 0, 100}, {"saturation", 0, 100}, {"hue", 0, 0.5}}, apply_jitter},
      {"brightness", factor_arguments(), apply_factor<adjust_brightness>},
      {"contrast", factor_arguments(), apply_factor<adjust_contrast>},
      {"saturation", factor_arguments(), apply_factor<adjust_saturation>},
      {"sharpness", factor_arguments(), apply_factor<adjust_sharpness>},
      {"gamma", factor_arguments(), apply_factor<gamma_of>},
      {"hue",
       {{"turn", 0, 0.5}, probability(1)},
       [](const Values& v, const Target& to) {
         if (happens(v[1], to.random)) adjust_hue(to.image, symmetric(v[0], to.random));
       }},
      {"gray", {probability(0.1)}, apply_maybe<to_gray>},
      {"invert", {probability(0.5)}, apply_maybe<invert>},
      {"solarize",
       {{"threshold", 0, 256, 128, Argument::whole}, probability(0.5)},
       [](const Values& v, const Target& to) {
         if (happens(v[1], to.random)) solarize(to.image, static_cast<int>(v[0]));
       }},
      {"posterize",
       {{"bits", 0, 8, {}, Argument::whole}, probability(0.5)},
       [](const Values& v, const Target& to) {
         if (happens(v[1], to.random)) posterize(to.image, static_cast<int>(v[0]));
       }},
      {"equalize", {probability(0.5)}, apply_maybe<equalize>},
      {"autocontrast", {probability(0.5)}, apply_maybe<autocontrast>},
      {"blur",
       {{"size", 1, 999, {}, Argument::odd},
        {"low", 0.01, 100, 0.1, Argument::low_of_pair},
        {"high", 0.01, 100, 2},
        probability(1)},
       [](const Values& v, const Target& to) {
         if (!happens(v[3], to.random)) return;
         blur(to.image, static_cast<int>(v[0]), to.random.uniform(v[1], v[2]), to.scratch);
       }},
      {"noise", {{"std", 0, 255}, probability(1)}, apply_noise},
      {"jpeg", {{"low", 1, 100, {}, Argument::low_of_pair}, {"high", 1, 100}, probability(1)}, apply_jpeg},
      {"erase",
       {probability(0.5),
        {"area_low", 0.0001, 1, 0.02, Argument::low_of_pair},
        {"area_high", 0.0001, 1, 1. / 3},
        {"ratio_low", 0.01, 100, 0.3, Argument::low_of_pair},
        {"ratio_high", 0.01, 100, 10. / 3},
        {"fill", 0, 255, Erasing::kNoise, Argument::level_or_noise}},
       [](const Values& v, const Target& to) {
         const Erasing erasing{v[0], {v[1], v[2]}, {v[3], v[4]}, static_cast<int>(v[5])};
         const Box box = draw_erased(erasing, to.image.height(), to.image.width(), to.random);
         erase(to.image, box, erasing.fill, to.random);
       },
       true},
  };
  return list;
}

class Listed final : public Augmentation {
 public:
  Listed(const Entry& entry, const Values& values) : entry_(entry), values_(values) {}
  void apply(Image& image, Scratch& scratch, Random& random) const override {
    entry_.apply(values_, {image, scratch, random});
  }
  bool moves_only() const override { return entry_.moves_only; }
  std::string text() const override {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < entry_.arguments.size(); ++i) {
      const bool noise = entry_.arguments[i].kind == Argument::level_or_noise && values_[i] == Erasing::kNoise;
      words.push_back(noise ? "noise" : neurim::text(values_[i]));
    }
    return neurim::text(entry_.name, "(", join(words, ","), ")");
  }

 private:
  const Entry& entry_;
  Values values_;
};

class Auto final : public Augmentation {
 public:
  Auto(AutoPolicy policy, std::string name) : policy_(policy), name_(std::move(name)) {}
  void apply(Image& image, Scratch& scratch, Random& random) const override {
    const Steps steps = draw_auto_augment(policy_, image.height(), image.width(), random);
    for (int i = 0; i < steps.count; ++i) apply_step(steps.list[i], image, scratch);
  }
  std::string text() const override { return name_; }

 private:
  AutoPolicy policy_;
  std::string name_;
};

class Rand final : public Augmentation {
 public:
  explicit Rand(const RandAugment& options) : options_(options) {}
  void apply(Image& image, Scratch& scratch, Random& random) const override {
    const Steps steps = draw_rand_augment(options_, image.height(), image.width(), random);
    for (int i = 0; i < steps.count; ++i) apply_step(steps.list[i], image, scratch);
  }
  std::string text() const override { return to_text(options_); }

 private:
  RandAugment options_;
};

class Trivial final : public Augmentation {
 public:
  void apply(Image& image, Scratch& scratch, Random& random) const override {
    apply_step(draw_trivial_augment(random), image, scratch);
  }
  std::string text() const override { return "trivial"; }
};

class Mixed final : public Augmentation {
 public:
  explicit Mixed(const AugMix& options) : options_(options) {}
  void apply(Image& image, Scratch& scratch, Random& random) const override {
    apply_aug_mix(options_, image, scratch, random);
  }
  std::string text() const override { return to_text(options_); }

 private:
  AugMix options_;
};

double parse_argument(const Entry& entry, const Argument& argument, const std::string& word) {
  if (argument.kind == Argument::level_or_noise && word == "noise") return Erasing::kNoise;
  double value = std::numeric_limits<double>::quiet_NaN();
  const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool number = read.ec == std::errc() && read.ptr == word.data() + word.size();
  const bool odd = argument.kind == Argument::odd;
  const bool whole = odd || argument.kind == Argument::whole || argument.kind == Argument::level_or_noise;
  require(number && value >= argument.low && value <= argument.high && (!whole || value == std::floor(value)) &&
              (!odd || std::fmod(value, 2) == 1),
          "changes: ", entry.name, ": ", argument.name, " is \"", word, "\"; it is ", odd ? "an odd " : "a ",
          whole && !odd ? "whole " : "", "number in [", argument.low, ", ", argument.high, "]",
          argument.kind == Argument::level_or_noise ? " or noise" : "");
  return value;
}

std::string signature(const Entry& entry) {
  std::vector<std::string> words;
  for (const Argument& argument : entry.arguments)
    words.push_back(argument.preset ? text("[", argument.name, "]") : argument.name);
  return text(entry.name, "(", join(words, ", "), ")");
}

Values parse_arguments(const Entry& entry, const std::vector<std::string>& words) {
  const std::size_t count = entry.arguments.size();
  require(words.size() <= count, "changes: ", entry.name, " has ", words.size(), " arguments; it is ",
          signature(entry));
  Values values{};
  for (std::size_t i = 0; i < count; ++i) {
    const Argument& argument = entry.arguments[i];
    require(i < words.size() || argument.preset, "changes: ", entry.name, ": ", argument.name, " is missing; it is ",
            signature(entry));
    values[i] = i < words.size() ? parse_argument(entry, argument, words[i]) : *argument.preset;
  }
  for (std::size_t i = 0; i + 1 < count; ++i)
    require(entry.arguments[i].kind != Argument::low_of_pair || values[i] <= values[i + 1], "changes: ", entry.name,
            ": ", entry.arguments[i].name, " is ", values[i], ", above ", entry.arguments[i + 1].name, " ",
            values[i + 1], "; the range needs low <= high");
  return values;
}

std::shared_ptr<const Augmentation> parse_policy(const std::string& item) {
  const std::string family = item.substr(0, item.find('-'));
  if (item == "trivial") return std::make_shared<Trivial>();
  if (family == "rand") return std::make_shared<Rand>(parse_rand_augment(item));
  if (family == "augmix") return std::make_shared<Mixed>(parse_aug_mix(item));
  if (item == "auto-imagenet") return std::make_shared<Auto>(AutoPolicy::imagenet, item);
  if (item == "auto-cifar10") return std::make_shared<Auto>(AutoPolicy::cifar10, item);
  if (item == "auto-svhn") return std::make_shared<Auto>(AutoPolicy::svhn, item);
  return nullptr;
}

[[noreturn]] void unknown_augmentation(const std::string& name) {
  std::vector<std::string> names{"trivial", "rand", "augmix", "auto-imagenet", "auto-cifar10", "auto-svhn"};
  for (const Entry& entry : entries()) names.push_back(entry.name);
  const std::string meant = nearest(name, names);
  fail(Fault::usage, "changes: there is no '", name, "'; ", meant.empty() ? "" : text("did you mean '", meant, "'? "),
       "known are ", join(names, ", "));
}

std::shared_ptr<const Augmentation> parse_augmentation(const std::string& item) {
  if (auto policy = parse_policy(item)) return policy;
  const std::size_t open = item.find('(');
  const std::string name = trimmed(std::string_view(item).substr(0, open));
  const auto entry = std::find_if(entries().begin(), entries().end(), [&](const Entry& e) { return name == e.name; });
  if (entry == entries().end()) unknown_augmentation(name);
  std::vector<std::string> words;
  if (open != std::string::npos) {
    require(item.back() == ')' && item.find(')') == item.size() - 1 && item.find('(', open + 1) == std::string::npos,
            "changes: \"", item, "\" is not name(argument, ...)");
    const std::string inside = item.substr(open + 1, item.size() - open - 2);
    if (!trimmed(inside).empty())
      for (const std::string& word : split(inside, ',')) words.push_back(trimmed(word));
  }
  return std::make_shared<Listed>(*entry, parse_arguments(*entry, words));
}

}  // namespace

std::vector<std::string> list_items(std::string_view list) {
  std::vector<std::string> items;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      items.push_back(trimmed(list.substr(begin, i - begin)));
      require(!items.back().empty(), "changes: an entry of the list is empty: ", list,
              "; entries are divided by single commas");
      begin = i + 1;
    } else {
      depth += (list[i] == '(') - (list[i] == ')');
    }
  }
  return items;
}

Augmentations parse_augmentations(std::string_view list) {
  Augmentations augmentations;
  if (trimmed(list).empty()) return augmentations;
  for (const std::string& item : list_items(list)) augmentations.push_back(parse_augmentation(item));
  return augmentations;
}

std::string to_text(const Augmentations& augmentations) {
  std::vector<std::string> items;
  for (const auto& augmentation : augmentations) items.push_back(augmentation->text());
  return join(items, ",");
}

}  // namespace neurim
