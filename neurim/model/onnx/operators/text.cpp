// Texts.
#include "neurim/base/text.h"

#include <algorithm>
#include <regex>

#include "neurim/base/error.h"
#include "neurim/model/onnx/operators/move.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/broadcast_to.h"

namespace neurim {

namespace {

using Words = std::vector<std::string>;

/// Texts in another shape by NumPy's rule.
OnnxStrings broadcast_texts(const OnnxStrings& texts, const Shape& shape) {
  return onnx_moved(texts, [&](const Tensor& x) { return broadcast_to(x, shape); }).strings();
}

OnnxValues string_concat(const OnnxCall& call) {
  const OnnxStrings &a = call.in(0).strings(), &b = call.in(1).strings();
  const Shape shape = broadcast(a.shape, b.shape, "StringConcat");
  OnnxStrings all = broadcast_texts(a, shape);
  const OnnxStrings more = broadcast_texts(b, shape);
  for (std::size_t i = 0; i < all.values.size(); ++i) all.values[i] += more.values[i];
  return {all};
}

/// The parts of a text between delimiters, or between white space; after `most` cuts the rest is one.
Words parts_of(const std::string& text, const std::string& delimiter, std::int64_t most) {
  constexpr const char* kBlanks = " \t\n\v\f\r";
  Words parts;
  std::size_t at = 0;
  while (true) {
    if (delimiter.empty()) {
      at = text.find_first_not_of(kBlanks, at);
      if (at == std::string::npos) return parts;
    }
    const std::size_t end = std::ssize(parts) == most ? std::string::npos
                            : delimiter.empty()       ? text.find_first_of(kBlanks, at)
                                                      : text.find(delimiter, at);
    if (end == std::string::npos) {
      std::string last = text.substr(at);
      if (delimiter.empty()) last.erase(last.find_last_not_of(kBlanks) + 1);
      parts.push_back(std::move(last));
      return parts;
    }
    parts.push_back(text.substr(at, end - at));
    at = end + std::max<std::size_t>(delimiter.size(), 1);
  }
}

OnnxValues string_split(const OnnxCall& call) {
  const OnnxStrings& texts = call.in(0).strings();
  const std::string delimiter = call.word("delimiter", "");
  const std::int64_t most = call.has("maxsplit") ? call.integer("maxsplit", std::int64_t{0}) : -1;
  std::vector<Words> all;
  std::vector<std::int64_t> counts;
  std::size_t widest = 0;
  for (const std::string& each : texts.values) {
    all.push_back(each.empty() && delimiter.empty() ? Words() : parts_of(each, delimiter, most));
    counts.push_back(std::ssize(all.back()));
    widest = std::max(widest, all.back().size());
  }
  OnnxStrings out{texts.shape, {}};
  out.shape.push_back(static_cast<std::int64_t>(widest));
  for (Words& parts : all) {
    parts.resize(widest);
    out.values.insert(out.values.end(), parts.begin(), parts.end());
  }
  return {out, Tensor::from(texts.shape, counts)};
}

std::string upper_of(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

/// Without stop words, in one case: of ASCII letters.
OnnxValues string_normalizer(const OnnxCall& call) {
  const OnnxStrings& texts = call.in(0).strings();
  require(texts.shape.rank() == 1 || (texts.shape.rank() == 2 && texts.shape[0] == 1), "the input is ", texts.shape,
          ", where (C) or (1,C) is wanted");
  const bool exact = call.integer("is_case_sensitive", std::int64_t{0}) != 0;
  const std::string action = call.word("case_change_action", "NONE");
  require(action == "NONE" || action == "LOWER" || action == "UPPER", "case_change_action is '", action, "'");
  Words stop = call.words("stopwords");
  if (!exact)
    for (std::string& word : stop) word = lower(word);
  OnnxStrings out{{}, {}};
  for (const std::string& each : texts.values) {
    if (std::find(stop.begin(), stop.end(), exact ? each : lower(each)) != stop.end()) continue;
    out.values.push_back(action == "LOWER" ? lower(each) : action == "UPPER" ? upper_of(each) : each);
  }
  if (out.values.empty()) out.values.emplace_back();
  out.shape = texts.shape;
  out.shape[-1] = std::ssize(out.values);
  return {out};
}

/// By the ECMAScript grammar of C++: of RE2's it lacks Unicode classes, flags such as (?i), and \A, \z, \C, \Q…\E.
OnnxValues regex_full_match(const OnnxCall& call) {
  const OnnxStrings& texts = call.in(0).strings();
  const std::string pattern = call.word("pattern", "");
  std::vector<std::uint8_t> matches;
  try {
    const std::regex wanted(pattern);
    for (const std::string& each : texts.values) matches.push_back(std::regex_match(each, wanted));
  } catch (const std::regex_error& error) {
    fail(Fault::data, "the pattern '", pattern, "' is not supported: ", error.what());
  }
  return {Tensor::from({DType::boolean, texts.shape}, matches.data())};
}

/// Counts n-grams, whose elements may lie up to `skips` others apart.
OnnxValues tf_idf(const OnnxCall& call) {
  const auto counts = call.integers("ngram_counts"), places = call.integers("ngram_indexes"),
             numbers = call.integers("pool_int64s");
  const Words words = call.words("pool_strings");
  const std::vector<double> weights = call.numbers("weights");
  const std::string mode = call.word("mode", "TF");
  require(mode == "TF" || mode == "IDF" || mode == "TFIDF", "mode is '", mode, "', not TF, IDF or TFIDF");
  const std::int64_t shortest = call.integer("min_gram_length", std::int64_t{1}),
                     longest = call.integer("max_gram_length", std::int64_t{1}),
                     skips = call.integer("max_skip_count", std::int64_t{0});
  require(skips >= 0, "max_skip_count is ", skips);
  const bool of_texts = call.in(0).is_strings();
  const std::vector<std::int64_t> tokens = of_texts ? std::vector<std::int64_t>() : call.integers(0);
  const Shape& shape = call.in(0).shape();
  const std::int64_t rows = shape.rank() == 2 ? std::int64_t{shape[0]} : 1,
                     width = shape.rank() == 0 ? 1 : std::int64_t{shape[-1]};
  constexpr std::int64_t most = std::int64_t{1} << 26;  // columns
  require(std::all_of(places.begin(), places.end(), [&](std::int64_t at) { return at >= 0 && at < most; }),
          "ngram_indexes are not all from 0 to ", most - 1);
  const std::int64_t size = places.empty() ? 0 : *std::max_element(places.begin(), places.end()) + 1;
  const std::int64_t pool = of_texts ? std::ssize(words) : std::ssize(numbers);
  require(std::is_sorted(counts.begin(), counts.end()) && (counts.empty() || (counts[0] >= 0 && counts.back() <= pool)),
          "ngram_counts are no places in a pool of ", pool);
  std::vector<float> out(static_cast<std::size_t>(rows * size));
  const auto same = [&](std::int64_t at, std::int64_t in_pool) {
    return of_texts
               ? call.in(0).strings().values[static_cast<std::size_t>(at)] == words[static_cast<std::size_t>(in_pool)]
               : tokens[static_cast<std::size_t>(at)] == numbers[static_cast<std::size_t>(in_pool)];
  };
  std::size_t gram = 0;
  for (std::size_t n = 0; n < counts.size(); ++n) {
    const auto length = static_cast<std::int64_t>(n) + 1;
    const std::int64_t end = n + 1 < counts.size() ? counts[n + 1] : pool;
    for (std::int64_t first = counts[n]; first + length <= end; first += length, ++gram) {
      require(gram < places.size(), "there are more n-grams than ngram_indexes");
      if (length < shortest || length > longest) continue;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t step = 1; step <= (length == 1 ? 1 : std::min(skips, width) + 1); ++step)
          for (std::int64_t start = 0; start + (length - 1) * step < width; ++start) {
            bool found = true;
            for (std::int64_t i = 0; found && i < length; ++i) found = same(row * width + start + i * step, first + i);
            if (found) ++out[static_cast<std::size_t>(row * size + places[gram])];
          }
    }
  }
  for (std::size_t i = 0; mode != "TF" && i < places.size(); ++i)
    for (std::int64_t row = 0; row < rows; ++row) {
      float& value = out[static_cast<std::size_t>(row * size + places[i])];
      const auto weight = static_cast<float>(i < weights.size() ? weights[i] : 1);
      value = mode == "IDF" ? (value > 0 ? weight : 0) : value * weight;
    }
  return {Tensor::from(shape.rank() == 2 ? Shape{rows, size} : Shape{size}, out)};
}

}  // namespace

void add_text_operators(OnnxOperators& to) {
  to.add("StringConcat", 20, string_concat);
  to.add("StringSplit", 20, string_split);
  to.add("StringNormalizer", 10, string_normalizer);
  to.add("RegexFullMatch", 20, regex_full_match);
  to.add("TfIdfVectorizer", 9, tf_idf);
}

}  // namespace neurim
