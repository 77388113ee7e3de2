#include "neurim/evaluate/canvas.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/base/png.h"
#include "neurim/evaluate/letters.h"

namespace neurim {

namespace {

using Surface = std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)>;
using Pen = std::unique_ptr<cairo_t, void (*)(cairo_t*)>;

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) fail(Fault::resource, "image: ", cairo_status_to_string(status));
}

}  // namespace

struct Canvas::Sheet {
  using Stroke = std::function<void(cairo_t*)>;

  Sheet(int across, int down, double enlarged)
      : width(across),
        height(down),
        scale(enlarged),
        ruler_surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1), cairo_surface_destroy),
        ruler(cairo_create(ruler_surface.get()), cairo_destroy) {
    check(cairo_status(ruler.get()));
    cairo_scale(ruler.get(), scale, scale);
  }

  int width, height;
  double scale;
  std::vector<Stroke> strokes;  // the drawing: each file is drawn anew
  Surface ruler_surface;
  Pen ruler;  // which measures letters

  /// The drawing in pixels.
  Surface pixels() const {
    Surface image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(std::lround(width * scale)),
                                             static_cast<int>(std::lround(height * scale))),
                  cairo_surface_destroy);
    paint(image.get(), scale);
    return image;
  }
  void paint(cairo_surface_t* target, double enlarged) const {
    const Pen pen(cairo_create(target), cairo_destroy);
    check(cairo_status(pen.get()));
    cairo_scale(pen.get(), enlarged, enlarged);
    for (const Stroke& stroke : strokes) stroke(pen.get());
    check(cairo_status(pen.get()));
    cairo_surface_flush(target);
  }
};

namespace {

void use(cairo_t* pen, const Color& c) { cairo_set_source_rgba(pen, c.red, c.green, c.blue, c.alpha); }

void use_font(cairo_t* pen, double size, bool bold) {
  cairo_select_font_face(pen, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(pen, size);
}

}  // namespace

Color mix(const Color& a, const Color& b, double t) {
  return {std::lerp(a.red, b.red, t), std::lerp(a.green, b.green, t), std::lerp(a.blue, b.blue, t),
          std::lerp(a.alpha, b.alpha, t)};
}

double axis_step(double least) {
  const double decade = std::pow(10.0, std::floor(std::log10(least)));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * decade >= least * (1 - 1e-9)) return step * decade;
  return 10 * decade;
}

Canvas::Canvas(int width, int height, double scale) : sheet_(std::make_unique<Sheet>(width, height, scale)) {
  rectangle(0, 0, width, height, {1, 1, 1});
}

Canvas::~Canvas() = default;
Canvas::Canvas(Canvas&&) noexcept = default;

void Canvas::rectangle(double x, double y, double width, double height, const Color& color) {
  sheet_->strokes.emplace_back([=](cairo_t* pen) {
    use(pen, color);
    cairo_new_path(pen);
    cairo_rectangle(pen, x, y, width, height);
    cairo_fill(pen);
  });
}

void Canvas::frame(double x, double y, double width, double height, const Color& color, double line_width) {
  sheet_->strokes.emplace_back([=](cairo_t* pen) {
    use(pen, color);
    cairo_set_line_width(pen, line_width);
    cairo_new_path(pen);
    cairo_rectangle(pen, x, y, width, height);
    cairo_stroke(pen);
  });
}

void Canvas::line(Point from, Point to, const Color& color, double line_width) {
  const Point points[] = {from, to};
  polyline(points, color, line_width);
}

void Canvas::polyline(std::span<const Point> points, const Color& color, double line_width) {
  sheet_->strokes.emplace_back([line = std::vector(points.begin(), points.end()), color, line_width](cairo_t* pen) {
    use(pen, color);
    cairo_set_line_width(pen, line_width);
    cairo_set_line_join(pen, CAIRO_LINE_JOIN_ROUND);
    cairo_new_path(pen);  // letters leave a current point
    for (const Point& p : line) cairo_line_to(pen, p.x, p.y);
    cairo_stroke(pen);
  });
}

void Canvas::disc(Point centre, double radius, const Color& color) {
  sheet_->strokes.emplace_back([=](cairo_t* pen) {
    use(pen, color);
    cairo_new_path(pen);
    cairo_arc(pen, centre.x, centre.y, radius, 0, 2 * M_PI);
    cairo_fill(pen);
  });
}

void Canvas::triangle(Point tip, double side, const Color& color) {
  sheet_->strokes.emplace_back([=](cairo_t* pen) {
    use(pen, color);
    cairo_new_path(pen);
    cairo_move_to(pen, tip.x, tip.y);
    cairo_rel_line_to(pen, side / 2, side * 0.87);
    cairo_rel_line_to(pen, -side, 0);
    cairo_fill(pen);
  });
}

void Canvas::letters(Point at, std::string_view text, const Lettering& how) {
  const std::string clean = utf8(letters_of(text));
  const double width = width_of(clean, how.size, how.bold);
  const double back = how.across == Align::begin ? 0 : how.across == Align::middle ? width / 2 : width;
  cairo_font_extents_t font;
  cairo_font_extents(sheet_->ruler.get(), &font);
  sheet_->strokes.emplace_back([=](cairo_t* pen) {
    use(pen, how.color);
    use_font(pen, how.size, how.bold);
    cairo_save(pen);
    cairo_translate(pen, at.x, at.y);
    if (how.upwards) cairo_rotate(pen, -M_PI / 2);
    // Digits and capitals, not the whole line with its descenders, look centred when they are.
    cairo_move_to(pen, -back, (font.ascent - font.descent) * 0.5 * 0.97);
    cairo_show_text(pen, clean.c_str());
    cairo_restore(pen);
  });
}

bool Canvas::can_draw(std::string_view text) {
  const std::vector<char32_t> letters = letters_of(text);
  if (std::any_of(letters.begin(), letters.end(), needs_shaping)) return false;
  use_font(sheet_->ruler.get(), 11, false);
  cairo_glyph_t* glyphs = nullptr;
  int count = 0;
  const cairo_status_t status = cairo_scaled_font_text_to_glyphs(cairo_get_scaled_font(sheet_->ruler.get()), 0, 0,
                                                                 utf8(letters).c_str(), -1, &glyphs, &count, nullptr,
                                                                 nullptr, nullptr);
  constexpr unsigned long kMissing = 0;  // the glyph of what a font lacks: a box
  const bool all = status == CAIRO_STATUS_SUCCESS &&
                   std::none_of(glyphs, glyphs + count,
                                [](const cairo_glyph_t& glyph) { return glyph.index == kMissing; });
  cairo_glyph_free(glyphs);
  return all;
}

double Canvas::width_of(std::string_view text, double size, bool bold) {
  use_font(sheet_->ruler.get(), size, bold);
  cairo_text_extents_t extents;
  cairo_text_extents(sheet_->ruler.get(), utf8(letters_of(text)).c_str(), &extents);
  return extents.x_advance;
}

std::string Canvas::fitted(std::string_view text, double limit, double size, bool bold) {
  return elided(text, limit, [&](std::string_view part) { return width_of(part, size, bold); });
}

void Canvas::heading(const Heading& heading, double width) {
  constexpr double kMargin = 20, kTitle = 17, kDetails = 12;
  letters({kMargin, 26}, fitted(heading.title, width - 2 * kMargin, kTitle, true),
          {.size = kTitle, .color = {0.16, 0.18, 0.22}, .bold = true});
  letters({kMargin, 49}, fitted(heading.details, width - 2 * kMargin, kDetails),
          {.size = kDetails, .color = {0.45, 0.48, 0.53}});
}

void Canvas::image(double x, double y, double width, double height, std::span<const std::uint8_t> rgb, int rows,
                   int columns, bool smooth) {
  NEURIM_ASSERT(rgb.size() == static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) * 3);
  const std::shared_ptr<cairo_surface_t> image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, columns, rows),
                                               cairo_surface_destroy);
  if (cairo_surface_status(image.get()) != CAIRO_STATUS_SUCCESS)
    fail(Fault::resource, "image: no memory for ", columns, " x ", rows, " pixels");
  const int stride = cairo_image_surface_get_stride(image.get());
  unsigned char* pixels = cairo_image_surface_get_data(image.get());
  const std::uint8_t* from = rgb.data();
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column, from += 3) {
      const std::uint32_t value = std::uint32_t{from[0]} << 16 | std::uint32_t{from[1]} << 8 | from[2];
      std::memcpy(pixels + static_cast<std::ptrdiff_t>(row) * stride + column * 4, &value, 4);
    }
  cairo_surface_mark_dirty(image.get());
  sheet_->strokes.emplace_back([=](cairo_t* pen) {
    cairo_save(pen);
    cairo_translate(pen, x, y);
    cairo_scale(pen, width / columns, height / rows);
    cairo_set_source_surface(pen, image.get(), 0, 0);
    cairo_pattern_set_extend(cairo_get_source(pen), CAIRO_EXTEND_PAD);
    if (!smooth) cairo_pattern_set_filter(cairo_get_source(pen), CAIRO_FILTER_NEAREST);
    cairo_rectangle(pen, 0, 0, columns, rows);
    cairo_fill(pen);
    cairo_restore(pen);
  });
}

std::string Canvas::jpeg() const {
  const Surface image = sheet_->pixels();
  const std::unique_ptr<void, int (*)(void*)> encoder(tjInitCompress(), tjDestroy);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int status = tjCompress2(
      encoder.get(), cairo_image_surface_get_data(image.get()), cairo_image_surface_get_width(image.get()),
      cairo_image_surface_get_stride(image.get()), cairo_image_surface_get_height(image.get()), TJPF_BGRX, &bytes,
      &size, TJSAMP_444, 90, 0);
  const std::string file(reinterpret_cast<const char*>(bytes), status == 0 ? size : 0);
  tjFree(bytes);
  if (status != 0) fail(Fault::resource, "image: cannot encode: ", tjGetErrorStr2(encoder.get()));
  return file;
}

std::string Canvas::png() const {
  const Surface image = sheet_->pixels();
  const int height = cairo_image_surface_get_height(image.get()), width = cairo_image_surface_get_width(image.get());
  const unsigned char* row = cairo_image_surface_get_data(image.get());
  std::vector<std::byte> levels;
  levels.reserve(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3);
  for (int y = 0; y < height; ++y, row += cairo_image_surface_get_stride(image.get()))
    for (int x = 0; x < width; ++x)
      for (const int channel : {2, 1, 0}) levels.push_back(std::byte{row[4 * x + channel]});  // from BGRX
  return encode_png({.height = height, .width = width}, levels, PngContent::drawing);
}

std::string Canvas::svg() const {
  std::string file;
  const auto append = [](void* to, const unsigned char* bytes, unsigned int count) {
    static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(bytes), count);
    return CAIRO_STATUS_SUCCESS;
  };
  const Surface target(cairo_svg_surface_create_for_stream(append, &file, sheet_->width, sheet_->height),
                       cairo_surface_destroy);
  cairo_svg_surface_set_document_unit(target.get(), CAIRO_SVG_UNIT_PX);
  sheet_->paint(target.get(), 1);
  cairo_surface_finish(target.get());
  check(cairo_surface_status(target.get()));
  return file;
}

}  // namespace neurim
