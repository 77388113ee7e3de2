"""PyTorch on the CPU as it is fastest: channels_last, fused SGD; eager, or compiled. Preload an allocator that keeps memory."""
import argparse
import os
import sys

import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "parity"))
import torch_models
from serve import serve


class Recurrent(torch.nn.Module):
    """Two layers, ten classes from the last output: the network of ../recurrent.cpp."""
    def __init__(self, kind):
        super().__init__()
        self.net = kind(128, 256, 2, batch_first=True)
        self.classes = torch.nn.Linear(256, 10)

    def forward(self, x):
        return self.classes(self.net(x)[0][:, -1])


RECURRENT = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=["train", "infer"], required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--imgsz", type=int, required=True, help="pixels; of recurrent models the number of steps")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--half", action="store_true", help="training: autocast to bf16")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    if a.model in RECURRENT:
        classes, model, images = 10, Recurrent(RECURRENT[a.model]), torch.randn(a.batch, a.imgsz, 128)
    else:
        classes, channels = (1000, 3) if a.imgsz > 32 else (10, 3 if a.imgsz == 32 else 1)  # digits are grey
        model = torch_models.create(a.model, classes, channels).to(memory_format=torch.channels_last)
        images = torch.randn(a.batch, channels, a.imgsz, a.imgsz).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(classes, (a.batch,))

    if a.mode == "train":
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)

        def loss_of():
            with torch.autocast("cpu", torch.bfloat16, enabled=a.half):
                return F.cross_entropy(model(images), labels)

        loss_of = torch.compile(loss_of) if a.compile else loss_of

        def call():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of()
            loss.backward()
            optimizer.step()
            loss.item()
    else:
        model.eval()
        net = torch.compile(model) if a.compile else model

        def call():
            with torch.inference_mode() if not a.compile else torch.no_grad():
                net(images)

    call()
    call()
    serve("torch compile" if a.compile else "torch bf16" if a.half else "torch eager", torch.__version__, call, a.batch)


if __name__ == "__main__":
    main()
