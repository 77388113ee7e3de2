// What files are that are given as weights and are none. Internal to model/.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace neurim {

/// Tells by content what a file is that no reader of weights knows, and what to do: "is a gzip archive; unpack it, …".
/// "" where the content says nothing.
std::string other_kind(std::span<const std::byte> file);

/// The same of a zip archive, by the names of its members. "" where they do not tell.
std::string other_kind_of_zip(const std::vector<std::string>& members);

}  // namespace neurim
