// Names that are the same but for their Unicode form: "é" as one character (NFC) or as e and a mark (NFD, as macOS
// writes names).
#pragma once
#include <string>
#include <string_view>

namespace neurim {

/// The text with every character decomposed and its marks in canonical order (NFD: Unicode Standard Annex 15), which is
/// the same for all texts that differ in Unicode form alone. What is no UTF-8 stays as it is.
std::string canonical_form(std::string_view text);

/// The text with all characters beyond ASCII as their code points, to tell apart what looks the same: "caf<U+00E9>".
std::string with_code_points(std::string_view text);

}  // namespace neurim
