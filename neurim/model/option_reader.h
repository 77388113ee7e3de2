// Options as model files give them. Internal to model/.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/graph/op.h"
#include "neurim/model/toml.h"

namespace neurim {

/// The item of that name, or null.
const Toml* find(const Toml::Table& table, std::string_view key);

/// "; did you mean 'x'?" where a known word is near, else what is known.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

/// Throws Error(data) with the line of an item that is none of these.
void check_known(const std::string& where, std::string_view what, const Toml::Table& table,
                 const std::vector<std::string>& known);

/// Runs `body`; its usage errors become errors of that place in the file.
template <class Body>
decltype(auto) located(const std::string& where, const Toml& at, std::string_view what, Body body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.fault() != Fault::usage) throw;
    fail(Fault::data, where, ':', at.line, ": ", what, error.what());
  }
}

/// A whole number in a range; throws Error(usage) with `what` for another value.
std::int64_t whole_number(std::string_view what, const Toml& value, std::int64_t least, std::int64_t most);
/// The same of those that options may have: within 2^24 of 0, so that products of a few stay in range.
std::int64_t whole_number(std::string_view what, const Toml& value);
/// Numbers that may have a fraction, in the same range: one, or all of a list.
std::vector<double> numbers(std::string_view what, const Toml& value);

/// The value with what its words mean where they have a '$': "$out" is what `scope` has under that name, and
/// "$out / 4 + 1" a sum of products of numbers and such names. Throws Error(usage) for an unknown name and
/// for what is no such sum.
Toml evaluated(const Toml& value, const Toml::Table& scope);

/// Fills options from what is given, by name. Throws Error(usage) for a value of another kind.
class OptionReader final : public Fields {
 public:
  /// `given` outlives the reader.
  explicit OptionReader(const Toml::Table& given) : given_(given) {}

  Fields& operator()(std::string_view name, std::int64_t& value) override;
  Fields& operator()(std::string_view name, double& value) override;
  Fields& operator()(std::string_view name, bool& value) override;
  /// Whole numbers are words too: pad = 1 is as good as pad = "same", and [1, 2] stands for "1,2".
  Fields& operator()(std::string_view name, std::string& value) override;
  Fields& operator()(std::string_view name, DType& value) override;
  Fields& operator()(std::string_view name,
                     std::vector<std::int64_t>& value) override;  ///< one number is a list too
  Fields& operator()(std::string_view name, std::vector<double>& value) override;

  /// Throws Error(usage) for what is given and was not visited, with the nearest that was.
  void check_all_known() const;

 private:
  template <class Take>
  Fields& read(std::string_view name, Take take);

  const Toml::Table& given_;
  std::vector<std::string> visited_;
};

}  // namespace neurim
