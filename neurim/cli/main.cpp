#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "neurim/base/error.h"
#include "neurim/cli/verbs.h"

namespace neurim::cli {

namespace {

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(const Words& words);
  bool saves = false;  ///< still writes its files if nobody reads stdout any more
};

constexpr Verb kVerbs[] = {
    {"train", "train a model on your images, series or text", verb_train, true},
    {"val", "evaluate a trained model on a split of a data set", verb_val, true},
    {"predict", "name what is in images, forecast a series, write text", verb_predict},
    {"explain", "show which parts of images an answer rests on", verb_explain, true},
    {"embed", "write what a classifier sees in images: features, neighbours, maps", verb_embed, true},
    {"runs", "list runs, or compare two", verb_runs},
    {"board", "show runs on a page of this machine", verb_board},
    {"run", "run a model on raw tensors in .npy files", verb_run, true},
    {"resume", "go on with a run that was stopped", verb_resume, true},
    {"launch", "train with several processes", verb_launch, true},
    {"export", "write a model as an ONNX file", verb_export, true},
    {"prune", "take channels away from a classifier and train it again", verb_prune, true},
    {"quantize", "write a classifier in 8 bits that stays as accurate as asked", verb_quantize, true},
    {"data", "look at data sets: find broken and odd images", verb_data, true},
    {"info", "show the layers of a model, or its plan", verb_info},
    {"models", "list the models that are known by name", verb_models},
    {"layers", "list the layers that model files can name", verb_layers},
    {"operators", "list the operators of ONNX that models may have", verb_operators},
    {"demo", "train, evaluate and export on drawn digits: needs no data", verb_demo, true},
    {"collectives", "measure sums over the processes of a job", verb_collectives},
    {"simulate", "predict how training scales over many devices", verb_simulate},
    {"benchmark", "measure training or inference", verb_benchmark},
    {"doctor", "tell what this machine is and reaches", verb_doctor},
    {"version", "print the version", verb_version},
};

int print_usage(const Words& words) {
  if (asks_for_json(words)) {
    Console console({.json = true});
    for (const Verb& verb : kVerbs) console.event({{"event", "verb"}, {"name", verb.name}, {"summary", verb.summary}});
    console.event({{"event", "summary"}, {"verbs", std::size(kVerbs)}});
    return 0;
  }
  std::printf("usage: neurim VERB name=value … (or --name value)\n\n");
  for (const Verb& verb : kVerbs) std::printf("  %-11s %s\n", verb.name, verb.summary);
  std::printf(
      "\n'neurim VERB --help' shows the options of a verb and examples.\n"
      "exit codes: 0 done, 1 failed, 2 wrong options, 3 bad data or model files, 4 no memory, disk or lock,\n"
      "            5 an export that answers otherwise than its model, or less accurate in\n"
      "            8 bits than allowed;\n"
      "            state saved for `neurim resume`: 130 after Ctrl-C, 75 after SIGTERM, SIGHUP, SIGUSR1,\n"
      "            SIGUSR2 or SIGXCPU\n");
  return 0;
}

const Verb& verb_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (name == verb.name) return verb;
    names.emplace_back(verb.name);
  }
  const std::string near = nearest(name, names);
  fail(Fault::usage, "there is no verb '", name, "'; ", near.empty() ? "" : text("did you mean '", near, "'? "),
       "known are ", join(names, ", "));
}

int guarded(const std::string& who, int (*run)(const Words&), const Words& words) {
  const auto report_error = [&](std::string_view message, Fault fault) {
    std::fprintf(stderr, "%s: %s\n", who.c_str(), printable(message).c_str());
    const int code = static_cast<int>(fault);
    if (asks_for_json(words))
      Console({.json = true}).event({{"event", "error"}, {"message", printable(message)}, {"exit_code", code}});
    return code;
  };
  try {
    const int code = run(words);
    const std::string lost = code == 0 ? lost_output() : "";
    if (lost.empty()) return code;
    return report_error(text("stdout: cannot write: ", lost,
                             "; part of the output is lost; give it another place, or free some "
                             "space there"),
                        Fault::resource);
  } catch (const Error& error) {
    return report_error(error.what(), error.fault());
  } catch (const std::bad_alloc&) {  // the exception itself needs no memory
    for (const char* part : {who.c_str(), ": out of memory; use a smaller batch or imgsz\n"}) std::fputs(part, stderr);
    return static_cast<int>(Fault::resource);
  } catch (const fs::filesystem_error& error) {
    return report_error(error.what(), Fault::resource);
  } catch (const std::exception& error) {
    return report_error(error.what(), Fault::failure);
  }
}

/// Reserves memory that is released when there is no more. Small allocations then succeed, such as those of the C++
/// library, of destructors that must not fail, and of the code that ends the run; large ones still fail.
void keep_reserve() {
  static std::atomic<void*> reserve{std::malloc(std::size_t{2} << 20)};
  std::set_new_handler([] {
    void* const last = reserve.exchange(nullptr);
    if (!last) throw std::bad_alloc();
    std::free(last);
  });
}

/// Keeps files from getting the number of a closed standard stream, since output would end up in them. Reading or
/// writing such a stream still fails.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) (void)!::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int run_verb(const Words& words) {
  return guarded(
      "neurim",
      [](const Words& all) {
        const Verb& verb = verb_named(all[0] == "--version" ? "version" : all[0]);
        if (verb.saves) std::signal(SIGPIPE, SIG_IGN);
        return guarded(text("neurim ", verb.name), verb.run, Words(all.begin() + 1, all.end()));
      },
      words);
}

}  // namespace

}  // namespace neurim::cli

int main(int argc, char** argv) {
  using namespace neurim::cli;
  keep_standard_streams();
  keep_reserve();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit then fails and is reported
  const Words words(argv + 1, argv + argc);
  const bool help = !words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "help");
  if (words.empty() || (help && (words.size() == 1 || words[1].starts_with('-'))))
    return guarded("neurim", print_usage, words);
  if (!help) return run_verb(words);
  Words of_verb(words.begin() + 1, words.end());
  of_verb.emplace_back("--help");
  return run_verb(of_verb);
}
