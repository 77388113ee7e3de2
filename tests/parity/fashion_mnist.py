#!/usr/bin/env python3
"""Trains LeNet-5 on Fashion-MNIST with Neurim and with its PyTorch twin, and compares the accuracy after the last epoch.

    tests/parity/fashion_mnist.py --neurim build/release/neurim --data DIR [--seeds 5] [--epochs 5] [--python PYTHON]

The twin has the same architecture, initialisers, optimizer, schedule and preprocessing: it reads the options that Neurim
chose from the run's args.yaml and stops at one that it cannot follow. `neurim val` has to report the figures of a run to
the last digit. Prints one JSON line; exit code 1: the two are further apart than 0.3 points and 2 standard errors, or val
reports something else. Takes minutes.
"""
import argparse
import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def read_args(path):
    """The flat YAML of a run's options; lists come as lists of numbers."""
    options = {}
    with open(path) as file:
        for line in file:
            name, _, value = line.partition(":")
            value = value.strip().strip('"')
            if value.startswith("["):
                options[name] = [float(part) for part in value.strip("[]").split(",") if part.strip()]
            else:
                options[name] = value
    return options


def run_neurim(arguments, seed, folder):
    """The run's folder, its last accuracy, and whether val reports the figures of the best epoch."""
    def summary(*words):
        lines = subprocess.run([arguments.neurim, *words, "--json", "--quiet"], stdout=subprocess.PIPE,
                               text=True, check=True).stdout
        return json.loads(lines.splitlines()[-1])

    trained = summary("train", f"data={arguments.data}", "model=lenet5", f"epochs={arguments.epochs}",
                      f"batch={arguments.batch}", f"seed={seed}", f"threads={arguments.threads}", f"project={folder}",
                      f"name=seed{seed}")
    evaluated = summary("val", f"model={trained['run']}", f"project={folder}", f"name=val{seed}")
    same = all(evaluated[figure] == trained[figure] for figure in ("top1", "top5", "loss", "f1_macro"))
    with open(os.path.join(trained["run"], "results.csv")) as file:
        last = list(csv.DictReader(file, skipinitialspace=True))[-1]
    return trained["run"], float(last["val_top1"]), same


def train_twin(arguments, args_file, seed):
    """The accuracy of the twin on the test set after the last epoch."""
    command = [arguments.python, os.path.abspath(__file__), "--twin", args_file, "--data", arguments.data, "--seeds",
               str(seed), "--threads", str(arguments.threads)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)["top1"]


def twin(args_file, data, seed, threads):
    """Runs in the Python that has PyTorch."""
    import torch
    from torch.nn import functional as F

    sys.path.insert(0, HERE)
    import image_sets
    import torch_models

    options = read_args(args_file)
    number = lambda name: float(options[name])
    for name, followed in [("sched", "cosine"), ("resize", "crop"), ("random_resized_crop", "false"), ("crop_padding", "0"),
                           ("hflip", "0"), ("rotation", "0"), ("brightness", "0"), ("changes", ""), ("mixup", "0"), ("cutmix", "0"),
                           ("sampler", "each"), ("class_weights", "none"), ("warmup_epochs", "0"),
                           ("decay_norms", "true"), ("pretrained", "")]:
        if options[name] != followed:
            sys.exit(f"{args_file}: {name} is {options[name]}; the twin follows {name}={followed} only")
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    model = torch_models.create("lenet5", 10, 1)

    decay = number("weight_decay")
    if options["opt"] == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), number("lr"), number("momentum"), weight_decay=decay,
                                    nesterov=options["nesterov"] == "true")
    else:
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[options["opt"]]
        optimizer = kind(model.parameters(), number("lr"), weight_decay=decay)

    def split(prefix):
        images, labels = image_sets.idx_split(data, prefix)
        scaled = torch.from_numpy(images.copy())[:, None].float() / 255
        return (scaled - number("mean")) / number("std"), torch.from_numpy(labels)

    (images, labels), (test_images, test_labels) = split("train"), split("t10k")
    epochs, batch = int(options["epochs"]), int(options["batch"])
    steps = math.ceil(len(images) / batch)
    for epoch in range(epochs):
        order = torch.randperm(len(images))
        for step in range(steps):
            share = (epoch + step / steps) / epochs
            low = number("min_lr")
            optimizer.param_groups[0]["lr"] = low + (number("lr") - low) * 0.5 * (1 + math.cos(math.pi * share))
            part = order[step * batch:(step + 1) * batch]
            loss = F.cross_entropy(model(images[part]), labels[part], label_smoothing=number("label_smoothing"))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        correct = sum((model(x).argmax(1) == y).sum().item()
                      for x, y in zip(test_images.split(1000), test_labels.split(1000)))
    print(json.dumps({"top1": correct / len(test_labels)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neurim", default="build/release/neurim")
    parser.add_argument("--data", required=True, help="folder of the four IDX files")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--twin", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.twin:
        return twin(arguments.twin, arguments.data, arguments.seeds, arguments.threads)

    neurim, torch, val_repeats = [], [], True
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, arguments.seeds + 1):
            run, top1, same = run_neurim(arguments, seed, folder)
            neurim.append(top1)
            val_repeats = val_repeats and same
            torch.append(train_twin(arguments, os.path.join(run, "args.yaml"), seed))
            print(f"seed {seed}: neurim {neurim[-1]:.4f}, pytorch {torch[-1]:.4f}", file=sys.stderr, flush=True)
    points = 100 * (statistics.mean(neurim) - statistics.mean(torch))
    error = 100 * math.sqrt(sum(statistics.variance(runs) for runs in (neurim, torch)) / arguments.seeds) \
        if arguments.seeds > 1 else 0.0
    agree = abs(points) <= max(0.3, 2 * error)
    print(json.dumps({"neurim": statistics.mean(neurim), "pytorch": statistics.mean(torch), "points": round(points, 3),
                      "standard_error": round(error, 3), "agree": agree, "val_repeats_the_run": val_repeats,
                      "neurim_runs": neurim, "pytorch_runs": torch}))
    return 0 if agree and val_repeats else 1


if __name__ == "__main__":
    sys.exit(main())
