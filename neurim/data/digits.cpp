#include "neurim/data/digits.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/core/random.h"
#include "neurim/data/encode.h"

namespace neurim {

namespace {

constexpr int kSide = 28;
constexpr double kTurn = 2 * std::numbers::pi;

struct Point {
  double x = 0, y = 0;
};

// A point the pen passes through; it turns sharply at a corner and smoothly elsewhere.
struct Knot {
  double x = 0, y = 0;
  bool corner = false;
};
using Stroke = std::vector<Knot>;
using Glyph = std::vector<Stroke>;

// The ways to write each digit, in a box of height 1 around the origin; x goes right, y down.
const std::vector<std::vector<Glyph>>& glyphs() {
  static const std::vector<std::vector<Glyph>> all = {
      // 0: round; begun at the right with a small overlap
      {{{{.02, -.5}, {-.24, -.34}, {-.31, 0}, {-.22, .37}, {.01, .5}, {.24, .35}, {.31, 0}, {.23, -.36}, {.0, -.5}}},
       {{{.16, -.44},
         {-.08, -.48},
         {-.27, -.2},
         {-.27, .2},
         {-.08, .47},
         {.16, .42},
         {.28, .1},
         {.24, -.25},
         {.06, -.46}}}},
      // 1: a bar; with a flag; with a flag and a foot
      {{{{.03, -.5}, {.0, .0}, {-.02, .5}}},
       {{{-.2, -.27}, {.05, -.5, true}, {.03, .0}, {.02, .5}}},
       {{{-.2, -.3}, {.04, -.5, true}, {.03, .0}, {.02, .48}}, {{-.24, .49}, {.26, .48}}}},
      // 2: with a sharp foot; with a loop
      {{{{-.27, -.27},
         {-.13, -.46},
         {.1, -.49},
         {.26, -.31},
         {.18, -.03},
         {-.08, .25},
         {-.3, .48, true},
         {.0, .46},
         {.31, .47}}},
       {{{-.26, -.3},
         {-.08, -.49},
         {.18, -.45},
         {.24, -.2},
         {.06, .12},
         {-.15, .4},
         {-.28, .42},
         {-.24, .26},
         {-.06, .32},
         {.12, .46},
         {.32, .42}}}},
      // 3: round; with a flat top
      {{{{-.26, -.38},
         {-.05, -.5},
         {.19, -.43},
         {.22, -.22},
         {.08, -.07},
         {-.07, -.03, true},
         {.14, .02},
         {.28, .2},
         {.2, .42},
         {-.04, .5},
         {-.28, .39}}},
       {{{-.26, -.47},
         {.0, -.48},
         {.24, -.48, true},
         {-.03, -.09, true},
         {.19, .0},
         {.28, .22},
         {.14, .45},
         {-.08, .5},
         {-.28, .4}}}},
      // 4: open; closed
      {{{{-.2, -.48}, {-.25, -.15}, {-.28, .08, true}, {.0, .09}, {.31, .07}}, {{.15, -.4}, {.12, .05}, {.1, .5}}},
       {{{.32, .19}, {.0, .18}, {-.3, .19, true}, {.14, -.5, true}, {.13, .0}, {.12, .5}}}},
      // 5: in one stroke; with its bar apart
      {{{{.28, -.48},
         {.04, -.48},
         {-.2, -.48, true},
         {-.24, -.06, true},
         {.0, -.14},
         {.24, .02},
         {.28, .24},
         {.12, .46},
         {-.1, .5},
         {-.3, .4}}},
       {{{-.17, -.44}, {-.21, -.06, true}, {.02, -.13}, {.25, .06}, {.24, .34}, {.02, .5}, {-.26, .42}},
        {{-.17, -.47}, {.06, -.47}, {.3, -.5}}}},
      // 6: bent; with a straight back
      {{{{.2, -.48},
         {-.06, -.3},
         {-.25, .02},
         {-.26, .3},
         {-.08, .49},
         {.16, .46},
         {.27, .26},
         {.18, .06},
         {-.04, .04},
         {-.22, .2}}},
       {{{.05, -.5},
         {-.14, -.2},
         {-.24, .12},
         {-.2, .38},
         {.02, .5},
         {.22, .38},
         {.22, .16},
         {.04, .06},
         {-.16, .14},
         {-.23, .26}}}},
      // 7: plain; with a bar across; with a hook
      {{{{-.28, -.46}, {.0, -.47}, {.28, -.46, true}, {.08, .0}, {-.08, .5}}},
       {{{-.28, -.46}, {.0, -.47}, {.28, -.46, true}, {.08, .0}, {-.08, .5}}, {{-.16, .03}, {.02, .01}, {.22, .0}}},
       {{{-.27, -.28}, {-.26, -.46, true}, {.0, -.45}, {.28, -.48, true}, {.1, -.1}, {.0, .5}}}},
      // 8: in one stroke; as two rings
      {{{{.2, -.36},
         {.0, -.5},
         {-.2, -.37},
         {-.14, -.15},
         {.1, .04},
         {.25, .26},
         {.1, .48},
         {-.12, .48},
         {-.25, .26},
         {-.08, .02},
         {.14, -.15},
         {.21, -.34}}},
       {{{.0, -.03}, {-.2, -.14}, {-.19, -.39}, {.0, -.5}, {.19, -.39}, {.2, -.14}, {.0, -.03}},
        {{.0, -.03}, {-.25, .12}, {-.23, .4}, {.0, .5}, {.23, .4}, {.25, .12}, {.0, -.03}}}},
      // 9: with a straight tail; with a bent one
      {{{{.2, -.32},
         {.05, -.49},
         {-.18, -.42},
         {-.25, -.2},
         {-.1, -.02},
         {.12, -.08},
         {.22, -.3, true},
         {.2, .1},
         {.15, .5}}},
       {{{.22, -.3},
         {.05, -.49},
         {-.19, -.42},
         {-.24, -.18},
         {-.08, .0},
         {.14, -.08},
         {.23, -.28},
         {.24, .05},
         {.12, .4},
         {-.1, .5},
         {-.26, .4}}}},
  };
  return all;
}

// A Catmull-Rom spline through the knots, broken at corners, as a fine polyline.
std::vector<Point> curve_through(const Stroke& knots) {
  constexpr int kPieces = 7;
  std::vector<Point> points;
  for (std::size_t i = 0; i + 1 < knots.size(); ++i) {
    const Knot &b = knots[i], &c = knots[i + 1];
    const Knot& a = i == 0 || b.corner ? b : knots[i - 1];
    const Knot& d = i + 2 == knots.size() || c.corner ? c : knots[i + 2];
    for (int k = points.empty() ? 0 : 1; k <= kPieces; ++k) {
      const double t = static_cast<double>(k) / kPieces, t2 = t * t, t3 = t2 * t;
      const double wa = -t3 + 2 * t2 - t, wb = 3 * t3 - 5 * t2 + 2, wc = -3 * t3 + 4 * t2 + t, wd = t3 - t2;
      points.push_back(
          {(wa * a.x + wb * b.x + wc * c.x + wd * d.x) / 2, (wa * a.y + wb * b.y + wc * c.y + wd * d.y) / 2});
    }
  }
  return points;
}

// An image in [0, 1] on which round pens draw.
class Sheet {
 public:
  // A line whose radius changes from `from` to `to`; `softness` is the width of its edge. Lengths in pixels.
  void line(Point a, Point b, double from, double to, double softness, double ink) {
    const double reach = std::max(from, to) + softness;
    const double dx = b.x - a.x, dy = b.y - a.y, length2 = std::max(dx * dx + dy * dy, 1e-12);
    const auto first = [&](double u, double v) {
      return std::max(0, static_cast<int>(std::floor(std::min(u, v) - reach)));
    };
    const auto last = [&](double u, double v) {
      return std::min(kSide - 1, static_cast<int>(std::ceil(std::max(u, v) + reach)));
    };
    for (int y = first(a.y, b.y); y <= last(a.y, b.y); ++y)
      for (int x = first(a.x, b.x); x <= last(a.x, b.x); ++x) {
        const double t = std::clamp(((x - a.x) * dx + (y - a.y) * dy) / length2, 0.0, 1.0);
        const double distance = std::hypot(x - a.x - t * dx, y - a.y - t * dy);
        const double cover = std::clamp((std::lerp(from, to, t) - distance) / softness + 0.5, 0.0, 1.0);
        float& pixel = at(x, y);
        pixel = std::max(pixel, static_cast<float>(ink * cover));
      }
  }
  float& at(int x, int y) { return pixels_[y * kSide + x]; }

 private:
  std::array<float, kSide * kSide> pixels_{};
};

// The strokes of a digit in pixels: a glyph with unsteady knots, bent, slanted, turned, scaled and moved.
std::vector<std::vector<Point>> handwriting(int digit, Random& random) {
  const auto& ways = glyphs()[digit];
  const Glyph& glyph = ways[random.below(static_cast<std::uint32_t>(ways.size()))];
  const double height = random.uniform(14.5, 21), width = height * random.uniform(0.75, 1.2);
  const double slant = 0.12 + 0.16 * random.normal(), turn = 0.13 * random.normal();
  const double bend_x = 0.035 * random.normal(), bend_y = 0.035 * random.normal();
  const double phase_x = random.uniform(0, kTurn), phase_y = random.uniform(0, kTurn);

  std::vector<std::vector<Point>> strokes;
  Point low{1e9, 1e9}, high{-1e9, -1e9};
  for (Stroke stroke : glyph) {
    for (Knot& knot : stroke) knot.x += 0.03 * random.normal(), knot.y += 0.03 * random.normal();
    strokes.push_back(curve_through(stroke));
    for (Point& p : strokes.back()) {
      p = {p.x + bend_x * std::sin(5 * p.y + phase_x), p.y + bend_y * std::sin(6 * p.x + phase_y)};
      const double x = (p.x - slant * p.y) * width, y = p.y * height;
      p = {x * std::cos(turn) - y * std::sin(turn), x * std::sin(turn) + y * std::cos(turn)};
      low = {std::min(low.x, p.x), std::min(low.y, p.y)};
      high = {std::max(high.x, p.x), std::max(high.y, p.y)};
    }
  }
  // Anywhere near the middle where the whole digit still fits.
  const auto place = [&](double least, double most) {
    const double room = std::max(0.0, (kSide - 5 - (most - least)) / 2);
    return (kSide - 1) / 2.0 - (least + most) / 2 + random.uniform(-1, 1) * std::min(room, 2.5);
  };
  const Point move{place(low.x, high.x), place(low.y, high.y)};
  for (auto& stroke : strokes)
    for (Point& p : stroke) p = {p.x + move.x, p.y + move.y};
  return strokes;
}

void draw_digit(Sheet& sheet, int digit, Random& random) {
  const double radius = random.uniform(0.8, 1.7), softness = random.uniform(0.9, 1.7), ink = random.uniform(0.65, 1);
  const double swell = random.uniform(0, 0.3), rhythm = random.uniform(0.1, 0.5), phase = random.uniform(0, kTurn);
  const auto pen = [&](std::size_t i) {
    return radius * (1 + swell * std::sin(phase + rhythm * static_cast<double>(i)));
  };
  for (const auto& stroke : handwriting(digit, random))
    for (std::size_t i = 0; i + 1 < stroke.size(); ++i)
      sheet.line(stroke[i], stroke[i + 1], pen(i), pen(i + 1), softness, ink);
}

// Slips of the pen: short, mostly faint lines and dots.
void draw_clutter(Sheet& sheet, Random& random) {
  for (std::uint32_t slips = random.below(3); slips > 0; --slips) {
    const double length = random.uniform() < 0.3 ? 0 : random.uniform(2, 7), angle = random.uniform(0, kTurn);
    const Point from{random.uniform(0, kSide - 1), random.uniform(0, kSide - 1)};
    const double radius = random.uniform(0.4, 1.1);
    sheet.line(from, {from.x + length * std::cos(angle), from.y + length * std::sin(angle)}, radius, radius, 1,
               random.uniform(0.2, 0.65));
  }
}

// The sheet as a camera sees it: uneven light, grain.
Image photograph(Sheet& sheet, Random& random) {
  const double dark = random.uniform(0, 0.12), light_x = random.uniform(-0.1, 0.1), light_y = random.uniform(-0.1, 0.1);
  const double grain = random.uniform(0.01, 0.05);
  Image image;
  image.reshape({kSide, kSide, 1});
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x) {
      const double ground = std::max(0.0,
                                     dark + light_x * (x / (kSide - 1.0) - 0.5) + light_y * (y / (kSide - 1.0) - 0.5));
      const double value = ground + (1 - ground) * sheet.at(x, y) + grain * random.normal();
      image.row(y)[x] = static_cast<std::uint8_t>(std::lround(255 * std::clamp(value, 0.0, 1.0)));
    }
  return image;
}

// `split` is 0 for train and 1 for val.
void write_split(const fs::path& folder, std::uint64_t seed, std::uint32_t split, int per_class) {
  for (int digit = 0; digit < 10; ++digit) {
    const fs::path class_folder = folder / text(digit);
    make_folder(class_folder);
    for (int i = 0; i < per_class; ++i) {
      Random random(seed, static_cast<std::uint64_t>(i) * 10 + static_cast<std::uint64_t>(digit), split);
      Sheet sheet;
      draw_digit(sheet, digit, random);
      draw_clutter(sheet, random);
      const std::string number = text(i), zeros(5 - std::min<std::size_t>(5, number.size()), '0');
      const std::string path = (class_folder / text(zeros, number, ".png")).string();
      // The folder is renamed when all is there, so that single files need no care.
      errno = 0;
      std::ofstream file(path, std::ios::binary);
      file << encode_png(photograph(sheet, random));
      file.close();
      if (!file)
        fail(Fault::resource, path, ": cannot write: ", std::strerror(errno),
             "; free some space, or choose another folder");
    }
  }
}

}  // namespace

void write_digits(const fs::path& root, std::uint64_t seed, int train_per_class, int val_per_class) {
  const std::pair<const char*, int> splits[] = {{"train", train_per_class}, {"val", val_per_class}};
  for (const auto& [name, per_class] : splits) {
    require(per_class >= 0, "digits: ", per_class, " images per class; expected 0 or more");
    require(!fs::exists(root / name), (root / name).string(), ": exists; choose another folder or remove it");
  }
  const fs::path partial = root / text(".partial.", ::getpid());
  try {
    for (std::uint32_t split = 0; split < 2; ++split)
      write_split(partial / splits[split].first, seed, split, splits[split].second);
    for (const auto& [name, per_class] : splits) fs::rename(partial / name, root / name);
    fs::remove(partial);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    if (const auto* system = dynamic_cast<const fs::filesystem_error*>(&error))
      fail(Fault::resource, "digits: ", system->what());
    throw;
  }
}

}  // namespace neurim
