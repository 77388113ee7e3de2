#include "neurim/distributed/hosts.h"

#include <algorithm>
#include <charconv>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/shell.h"
#include "neurim/base/text.h"
#include "neurim/hardware/machine.h"

namespace neurim {

namespace {

constexpr int kMostSlots = 1024;

HostSlots read_host(const std::string& word, const std::string& where) {
  const std::size_t blank = word.find_first_of(" \t"), colon = word.rfind(':');
  require(std::count(word.begin(), word.end(), ':') <= 1, where, ": '", word,
          "' has several colons; name machines rather than addresses of IPv6");
  HostSlots read{.host = word.substr(0, std::min(blank, colon))};
  std::string slots = "1";
  constexpr std::string_view kSlots = "slots=";
  if (blank != word.npos) {
    slots = trimmed(word.substr(blank));
    require(slots.find(kSlots) == 0, where, ": '", word, "' is no machine; write node1:4 or node1 slots=4");
    slots = slots.substr(kSlots.size());
  } else if (colon != word.npos) {
    slots = word.substr(colon + 1);
  }
  const auto [end, error] = std::from_chars(slots.data(), slots.data() + slots.size(), read.slots);
  require(error == std::errc() && end == slots.data() + slots.size() && read.slots >= 1 && read.slots <= kMostSlots &&
              !read.host.empty() && read.host[0] != '-',
          where, ": '", word, "' is no machine; write its name and how many processes run there, node1:4");
  return read;
}

}  // namespace

std::vector<HostSlots> hosts_named(const std::string& option) {
  const bool is_file = is_there(option);
  std::vector<HostSlots> hosts;
  for (std::string line : split(is_file ? read_text(option) : option, is_file ? '\n' : ',')) {
    line = trimmed(line.substr(0, line.find('#')));
    if (!line.empty()) hosts.push_back(read_host(line, is_file ? option : "hosts"));
  }
  require(!hosts.empty(), "hosts: ", option, " names no machine; write hosts=node1:4,node2:4");
  return hosts;
}

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == host_name();
}

std::string remote_script(const std::string& folder, const std::vector<std::string>& variables,
                          const std::vector<std::string>& command, const std::string& first) {
  std::string run = "env";
  for (const std::vector<std::string>* words : {&variables, &command})
    for (const std::string& word : *words) run += ' ' + shell_word(word);
  // File 3 is stdin, which the shell takes away from what it runs in the background.
  return text("cd ", shell_word(folder), " && IFS= read -r ", first, " && export ", first, " && exec 3<&0 && { ", run,
              " </dev/null 3<&- & rank=$!; { while read -r signal; do kill -s \"$signal\" $rank; done <&3; "
              "kill -s KILL $rank; } 2>/dev/null >/dev/null & watch=$!; wait $rank; code=$?; kill $watch 2>/dev/null; "
              "exit $code; }");
}

}  // namespace neurim
