#include "neurim/distributed/loaded_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

LoadedLibrary::LoadedLibrary(const char* what, const char* variable, std::vector<std::string> names,
                             const char* instead, bool global)
    : what_(what) {
  if (const char* const given = std::getenv(variable)) names = {given};
  std::string why;
  for (const std::string& name : names) {
    handle_ = ::dlopen(name.c_str(), RTLD_LAZY | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (handle_) return;
    why += text(why.empty() ? "" : "; ", ::dlerror());
  }
  fail(Fault::failure, "no ", what_, " library can be loaded (", why, "); name it in ", variable, ", or ", instead);
}

bool LoadedLibrary::has(const char* name) const { return ::dlsym(handle_, name) != nullptr; }

void* LoadedLibrary::symbol(const char* name) const {
  void* const found = ::dlsym(handle_, name);
  if (!found) fail(Fault::failure, "the ", what_, " library has no ", name);
  return found;
}

}  // namespace neurim
