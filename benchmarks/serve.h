// The line protocol of peers/serve.py, for plans.
#pragma once
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "neurim/neurim.h"

namespace neurim {

/// The words NAME=N behind the first, N of 1 or more, of those that are known.
inline void read_counts(const std::vector<std::string>& words, std::map<std::string, std::int64_t, std::less<>>& known) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = std::min(words[i].find('='), words[i].size() - 1);
    const auto at = known.find(words[i].substr(0, equals));
    const char *begin = words[i].data() + equals + 1, *end = words[i].data() + words[i].size();
    std::vector<std::string> names;
    for (const auto& [name, value] : known) names.push_back(name + "=N");
    require(at != known.end() && std::from_chars(begin, end, at->second).ptr == end && begin < end && at->second > 0, "'",
            words[i], "' is none of ", join(names, ", "), " with N of 1 or more");
  }
}

/// Answers until the input ends.
inline int serve(const Plan& plan, const std::string& name, std::int64_t batch) {
  using Clock = std::chrono::steady_clock;
  using Json = nlohmann::ordered_json;
  const auto say = [](const Json& answer) { std::cout << answer.dump() << std::endl; };
  const std::string key = text("bs", batch);
  say({{"ready", 1}, {"base", {{"case", name}, {"peer", "neurim"}, {"version", version()}}}, {"keys", {{key, batch}}}});
  for (std::string request; std::getline(std::cin, request);) {
    std::istringstream words(request);
    std::string verb, asked;
    double seconds = 0;
    words >> verb;
    if (verb.empty() || verb == "quit") break;
    words >> asked >> seconds;
    require(verb == "go" && asked == key && words, "cannot answer '", request, "'; send 'go ", key, " SECONDS' or 'quit'");
    std::vector<double> times;
    double spent = 0;
    while (times.empty() || spent < seconds) {
      const Clock::time_point begin = Clock::now();
      plan.run(plan.inputs(), plan.outputs());
      times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      spent += times.back();
    }
    say({{"times", times}});
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  say({{"peak_rss_mib", static_cast<double>(usage.ru_maxrss) / 1024}});
  return 0;
}

}  // namespace neurim
