#include "neurim/evaluate/html_page.h"

#include "neurim/base/base64.h"
#include "neurim/base/text.h"
#include "neurim/evaluate/letters.h"

namespace neurim {

namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1b1f27; --muted: #555e6b; --page: #ffffff; --line: #d9dee5; --band: #f3f5f8; --link: #0b5a9c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebf0; --muted: #a9b3c1; --page: #14171c; --line: #343b46; --band: #1d222a; --link: #7cc0ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; }
main, header, nav { max-width: 72rem; margin: 0 auto; padding: 0 1.25rem; }
h1 { margin: 1.5rem 0 0; font-size: 1.7rem; overflow-wrap: anywhere; }
h2 { margin: 2.2rem 0 0.6rem; font-size: 1.25rem; border-bottom: 1px solid var(--line); padding-bottom: 0.3rem; }
header p { margin: 0.2rem 0 0; color: var(--muted); overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.2rem 1.1rem; margin: 0.8rem 0 0; padding: 0; list-style: none; }
a { color: var(--link); }
a:focus-visible, .scroll:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.scroll { overflow-x: auto; max-height: 40rem; overflow-y: auto; border: 1px solid var(--line); border-radius: 6px; margin: 0.6rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding: 0.4rem 0.7rem; }
th, td { padding: 0.28rem 0.7rem; text-align: left; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
th { background: var(--band); font-weight: 600; }
thead th { position: sticky; top: 0; }
th.n, td.n { text-align: right; white-space: nowrap; }
img { display: block; max-width: 100%; height: auto; background: #ffffff; border: 1px solid var(--line); border-radius: 6px; margin: 0.8rem 0; }
footer { max-width: 72rem; margin: 2.5rem auto 1.5rem; padding: 0 1.25rem; color: var(--muted); font-size: 0.9rem; }
@media print { .scroll { max-height: none; overflow: visible; border: 0; } nav { display: none; } img, tr { break-inside: avoid; } h2 { break-after: avoid; } }
)";

}  // namespace

std::string html_text(std::string_view words) {
  std::string out;
  for (const char letter : utf8(letters_of(words))) switch (letter) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += letter;
    }
  return out;
}

void HtmlPage::section(std::string_view title) {
  const std::string words = html_text(title);
  ++sections_;
  body_ += text("<h2 id=\"s", sections_, "\">", words, "</h2>\n");
  contents_ += text("<li><a href=\"#s", sections_, "\">", words, "</a></li>\n");
}

void HtmlPage::paragraph(std::string_view words) { body_ += text("<p>", html_text(words), "</p>\n"); }

void HtmlPage::table(std::string_view caption, const std::vector<std::string>& columns,
                     const std::vector<std::vector<std::string>>& rows, std::size_t numbers) {
  const std::string words = html_text(caption);
  const auto kind = [&](std::size_t column) { return column >= numbers ? " class=\"n\"" : ""; };
  // Who has no mouse scrolls what has the focus.
  body_ += text("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", words, "\"><table><caption>",
                words, "</caption><thead><tr>");
  for (std::size_t i = 0; i < columns.size(); ++i)
    body_ += text("<th scope=\"col\"", kind(i), ">", html_text(columns[i]), "</th>");
  body_ += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      body_ += i == 0 ? text("<th scope=\"row\"", kind(i), ">", html_text(row[i]), "</th>")
                      : text("<td", kind(i), ">", html_text(row[i]), "</td>");
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlPage::image(std::string_view kind, std::string_view bytes, std::string_view shows) {
  body_ += text("<img src=\"data:", kind, ";base64,", to_base64(bytes), "\" alt=\"", html_text(shows), "\">\n");
}

std::string HtmlPage::html() const {
  return text(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>",
      html_text(title_), "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<header><h1>", html_text(title_),
      "</h1>\n<p>", html_text(subject_), "</p></header>\n<nav aria-label=\"Sections\"><ul>\n", contents_,
      "</ul></nav>\n<main>\n", body_, "</main>\n<footer>Written by Neurim.</footer>\n</body>\n</html>\n");
}

}  // namespace neurim
