// Libraries that are loaded when a job asks for them.
#pragma once
#include <string>
#include <vector>

namespace neurim {

/// A library that was loaded; it stays so as long as the process.
class LoadedLibrary {
 public:
  /// The one that an environment variable names, else the first of `names` that is there. Throws Error(failure): "no
  /// WHAT library can be loaded", why, the variable, and what else one may do. `global`: libraries that are loaded
  /// later find its names.
  LoadedLibrary(const char* what, const char* variable, std::vector<std::string> names, const char* instead,
                bool global = false);
  bool has(const char* name) const;
  void* symbol(const char* name) const;  ///< throws Error(failure) where it has no such name
  template <class Function>
  void load(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }

 private:
  std::string what_;
  void* handle_ = nullptr;
};

}  // namespace neurim
