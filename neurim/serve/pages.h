// The files of serve/pages, as the build puts them into the library.
#pragma once
#include <string_view>

namespace neurim {

extern const std::string_view kBoardPage, kBoardScript, kBoardStyle;

}  // namespace neurim
