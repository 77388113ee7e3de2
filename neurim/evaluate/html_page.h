// A page of one file: no scripts, nothing from elsewhere; light or dark as the reader's screen is set, and good to
// print.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

/// The text with what HTML means otherwise written as entities. Bytes that are no UTF-8 become U+FFFD.
std::string html_text(std::string_view words);

class HtmlPage {
 public:
  /// A page with this heading, and below it a line on what it is of.
  HtmlPage(std::string title, std::string subject) : title_(std::move(title)), subject_(std::move(subject)) {}

  void section(std::string_view title);
  void paragraph(std::string_view words);
  /// A table with a heading above it; columns from `numbers` on are aligned as numbers.
  void table(std::string_view caption, const std::vector<std::string>& columns,
             const std::vector<std::vector<std::string>>& rows, std::size_t numbers);
  /// An image, whose bytes become a part of the page. `kind`: "image/png". `shows`: what is said to who cannot see it.
  void image(std::string_view kind, std::string_view bytes, std::string_view shows);

  std::string html() const;  ///< the whole file

 private:
  std::string title_, subject_, body_, contents_;
  int sections_ = 0;
};

}  // namespace neurim
