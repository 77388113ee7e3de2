// The verbs of the command. Each returns the exit code.
#pragma once
#include "neurim/cli/command_line.h"

namespace neurim::cli {

int verb_benchmark(const Words& words);
int verb_board(const Words& words);
int verb_collectives(const Words& words);
int verb_data(const Words& words);
int verb_demo(const Words& words);
int verb_doctor(const Words& words);
int verb_embed(const Words& words);
int verb_explain(const Words& words);
int verb_export(const Words& words);
int verb_info(const Words& words);
int verb_launch(const Words& words);
int verb_layers(const Words& words);
int verb_operators(const Words& words);
int verb_models(const Words& words);
int verb_predict(const Words& words);
int verb_prune(const Words& words);
int verb_quantize(const Words& words);
int verb_resume(const Words& words);
int verb_run(const Words& words);
int verb_runs(const Words& words);
int verb_simulate(const Words& words);
int verb_train(const Words& words);
int verb_val(const Words& words);
int verb_version(const Words& words);

}  // namespace neurim::cli
