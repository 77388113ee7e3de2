// The files of infer/adapters, as the build puts them into the library.
#pragma once
#include <string_view>

namespace neurim {

extern const std::string_view kOpenvinoAdapter, kTensorrtAdapter;

}  // namespace neurim
