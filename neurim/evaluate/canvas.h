// A sheet to draw charts and images on, which becomes a PNG, a JPEG or an SVG.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace neurim {

struct Color {
  double red = 0, green = 0, blue = 0;  ///< in [0, 1]
  double alpha = 1;
};

/// The colour at `t` in [0, 1] of a straight line from `a` to `b`.
Color mix(const Color& a, const Color& b, double t);

/// The least of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ... that is at least `least` > 0: a step between the marks
/// of an axis.
double axis_step(double least);

struct Point {
  double x = 0, y = 0;
};

/// What an image shows, in its first two lines.
struct Heading {
  std::string title, details;
};

enum class Align { begin, middle, end };

struct Lettering {
  double size = 11;  ///< of the font, in units
  Color color{0.2, 0.22, 0.26};
  Align across = Align::begin;  ///< where along the text the given point lies
  bool bold = false;
  bool upwards = false;  ///< turned by 90°, reading from below to above
};

/// White at first. Lengths are in units, `scale` pixels each; x goes right, y down. Text is UTF-8 of any
/// quality.
class Canvas {
 public:
  /// Throws Error(resource) without memory.
  Canvas(int width, int height, double scale = 1);
  ~Canvas();
  Canvas(Canvas&&) noexcept;

  void rectangle(double x, double y, double width, double height, const Color& color);
  void frame(double x, double y, double width, double height, const Color& color, double line_width = 1);
  void line(Point from, Point to, const Color& color, double line_width = 1);
  void polyline(std::span<const Point> points, const Color& color, double line_width);
  void disc(Point centre, double radius, const Color& color);
  void triangle(Point tip, double side, const Color& color);  ///< below its tip

  /// Draws `text` centred on the line through `at` (vertically, or horizontally when upwards).
  void letters(Point at, std::string_view text, const Lettering& lettering);
  /// Whether the font has every letter, and all stand side by side as they come: letters of scripts that join, reorder
  /// or run from right to left need shaping, which there is not.
  bool can_draw(std::string_view text);
  double width_of(std::string_view text, double size, bool bold = false);
  /// The text shortened in its middle to a width of at most `limit`.
  std::string fitted(std::string_view text, double limit, double size, bool bold = false);

  /// Draws the heading into the first kHeading units of a sheet of this width, shortened where it is too long.
  void heading(const Heading& heading, double width);
  static constexpr double kHeading = 64;

  /// Draws pixels (rows x columns x 3 levels) into the rectangle; of ones that are enlarged the edges are smooth, or
  /// sharp.
  void image(double x, double y, double width, double height, std::span<const std::uint8_t> rgb, int rows, int columns,
             bool smooth = true);

  std::string png() const;   ///< the bytes of the file; this and the next throw Error(resource) without memory
  std::string jpeg() const;  ///< the same as a JPEG, for photos
  std::string svg() const;   ///< the same as an SVG, where letters are outlines; a unit is a pixel

 private:
  struct Sheet;
  std::unique_ptr<Sheet> sheet_;
};

}  // namespace neurim
