"""The baseline of the fit benchmark: the same classifiers, trained member after member in PyTorch.

Written as a competent user would: tensors prepared once, every batch cut to its longest document,
validation by length and without gradients, the library's own convolutions, GRU and fused AdamW.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from crabjax.config import EnsembleConfig, ModelConfig
from crabjax.models.pretrained import Architecture

VALIDATION_BATCH = 150  # documents; of 50, 150 and 300 the fastest


class TorchTimes(NamedTuple):
    """Seconds per epoch over all members, and their best validation micro-F1.

    Building the members counts as training, as it does on the other side.
    """

    training: float
    validation: float
    validation_f1: list[float]


class TextCNN(nn.Module):
    """As ``crabjax.models.text_cnn``, except that windows of padding alone take part in the max.

    Leaving them out costs the baseline a mask; a plain loop does without. Two-dimensional
    convolutions over words as channels-last images of height 1 take three quarters of the time of
    one-dimensional ones, or of matrix products with unfolded words.
    """

    def __init__(self, config: ModelConfig, vocabulary_size: int, labels: int):
        super().__init__()
        self.embedding = _embedding(vocabulary_size, config.embedding)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(config.embedding, config.kernels, (1, width), padding=(0, width - 1))
            for width in config.widths
        )
        self.convolutions.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(len(config.widths) * config.kernels, labels)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        words = self.embedding(tokens).transpose(1, 2).unsqueeze(2)  # [B, D, 1, T]
        pooled = [layer(words).amax((2, 3)) for layer in self.convolutions]
        return self.output(self.dropout(functional.relu(torch.cat(pooled, 1))))


class TextRNN(nn.Module):
    """As ``crabjax.models.text_rnn``.

    The backward direction reads each document from its last word, by a unit of its own: as fast as
    one bidirectional unit, which would read padding first and so see how long a document is.
    Packing the sequences does the same, but PyTorch's backward pass on CPU is then five times
    slower (1.20 s against 0.22 s for one batch of 50 documents).
    """

    def __init__(self, config: ModelConfig, vocabulary_size: int, labels: int):
        super().__init__()
        self.embedding = _embedding(vocabulary_size, config.embedding)
        self.forward_unit = nn.GRU(config.embedding, config.hidden, batch_first=True)
        self.backward_unit = nn.GRU(config.embedding, config.hidden, batch_first=True)
        self.attention = nn.Linear(2 * config.hidden, config.attention)
        self.query = nn.Linear(config.attention, 1, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(2 * config.hidden, labels)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        live = tokens != 0
        last = live.sum(1, keepdim=True) - 1
        mirror = (last - torch.arange(tokens.shape[1])).clamp(min=0)  # [B, T]
        read, _ = self.forward_unit(self.embedding(tokens))
        back, _ = self.backward_unit(self.embedding(tokens.gather(1, mirror)))
        back = back.gather(1, mirror[:, :, None].expand_as(back))
        states = torch.cat([read, back], 2)
        scores = self.query(torch.tanh(self.attention(states))).squeeze(2)
        weights = torch.softmax(scores.masked_fill(~live, float("-inf")), 1)
        return self.output(self.dropout(torch.einsum("bt,bth->bh", weights, states)))


def _embedding(words: int, size: int) -> nn.Embedding:
    embedding = nn.Embedding(words, size, padding_idx=0)
    nn.init.uniform_(embedding.weight, -0.25, 0.25)
    with torch.no_grad():
        embedding.weight[0] = 0
    return embedding


def distilbert(architecture: Architecture, labels: int) -> nn.Module:
    """The library's own model of the same architecture, giving logits."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    settings: dict[str, Any] = {
        "vocab_size": architecture.vocabulary,
        "max_position_embeddings": architecture.positions,
        "dim": architecture.width,
        "hidden_dim": architecture.inner,
        "n_heads": architecture.heads,
        "n_layers": architecture.layers,
        "num_labels": labels,
    }
    network = DistilBertForSequenceClassification(DistilBertConfig(**settings))

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.network(tokens, attention_mask=(tokens != 0).long()).logits

    return Logits()


def train_members(
    build: Callable[[], nn.Module],
    config: EnsembleConfig,
    tokens: np.ndarray,
    labels: np.ndarray,
    train_rows: np.ndarray,
    validation_rows: np.ndarray,
) -> TorchTimes:
    """Trains ``config.members`` members for ``config.epochs`` epochs, one after another."""
    inputs = torch.from_numpy(tokens).long()
    targets = torch.from_numpy(labels).float()
    train = inputs[train_rows], targets[train_rows]
    # By length, so that a batch holds little padding.
    by_length = validation_rows[np.argsort((tokens[validation_rows] != 0).sum(1))]
    validation = inputs[by_length], targets[by_length]
    training, validating, scores = 0.0, 0.0, []
    for member in range(config.members):
        start = time.perf_counter()
        torch.manual_seed(member)
        network = build()
        optimizer = torch.optim.AdamW(
            network.parameters(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
        )
        best, best_state = -1.0, None
        training += time.perf_counter() - start
        for _ in range(config.epochs):
            start = time.perf_counter()
            _train_epoch(network, optimizer, *train, config.batch_size)
            middle = time.perf_counter()
            compared = len(validation[0]) > 0
            f1 = _micro_f1(network, *validation) if compared else 0.0
            if f1 > best or not compared:
                best = f1
                best_state = {name: value.clone() for name, value in network.state_dict().items()}
            training += middle - start
            validating += time.perf_counter() - middle
        assert best_state is not None
        scores.append(best)
    return TorchTimes(training / config.epochs, validating / config.epochs, scores)


def _train_epoch(network, optimizer, inputs, targets, batch_size: int) -> None:
    network.train()
    for rows in torch.randperm(len(inputs)).split(batch_size):
        optimizer.zero_grad()
        logits = network(_trimmed(inputs[rows]))
        functional.binary_cross_entropy_with_logits(logits, targets[rows]).backward()
        optimizer.step()


@torch.no_grad()
def _micro_f1(network, inputs, targets) -> float:
    network.eval()
    logits = torch.cat([network(_trimmed(batch)) for batch in inputs.split(VALIDATION_BATCH)])
    predicted, truth = logits > 0, targets > 0
    hits = (predicted & truth).sum()
    return float(2 * hits / (predicted.sum() + truth.sum()).clamp(min=1))


def _trimmed(tokens: torch.Tensor) -> torch.Tensor:
    """A batch without the columns that are padding in every document."""
    return tokens[:, : int((tokens != 0).sum(1).max())]
