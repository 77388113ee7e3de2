// Files from the network, for who asks for them by an address.
#pragma once
#include <string>

#include "neurim/base/file.h"

namespace neurim {

/// Writes what a URL gives to `file`, by the program curl, which knows proxies and certificates, and prints its message
/// where that fails. Throws Error(resource) where it cannot be run or fetched, and for more than `most` bytes.
void fetch(const std::string& url, const fs::path& file, std::int64_t most);

}  // namespace neurim
