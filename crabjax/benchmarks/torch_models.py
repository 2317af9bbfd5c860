"""The baseline of the fit benchmark: the same classifiers, trained member after member in PyTorch.

Written as a competent user would: tensors prepared once, evaluation without gradients, the
library's own convolutions, GRU and AdamW.
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


class TorchTimes(NamedTuple):
    """Seconds per epoch over all members, and their best validation micro-F1."""

    training: float
    validation: float
    validation_f1: list[float]


class TextCNN(nn.Module):
    """As ``crabjax.models.text_cnn``, except that windows of padding alone take part in the max.

    Leaving them out costs the baseline a mask; a plain loop does without.
    """

    def __init__(self, config: ModelConfig, vocabulary_size: int, labels: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, config.embedding, padding_idx=0)
        nn.init.uniform_(self.embedding.weight, -0.25, 0.25)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.embedding, config.kernels, width, padding=width - 1)
            for width in config.widths
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(len(config.widths) * config.kernels, labels)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        words = self.embedding(tokens).transpose(1, 2)  # [B, D, T]
        pooled = [functional.relu(layer(words)).amax(2) for layer in self.convolutions]
        return self.output(self.dropout(torch.cat(pooled, 1)))


class TextRNN(nn.Module):
    """As ``crabjax.models.text_rnn``, except that the backward direction reads padding first.

    Packing the sequences would skip padding, but makes PyTorch's backward pass on CPU five times
    slower (1.20 s against 0.22 s for one batch of 50 documents).
    """

    def __init__(self, config: ModelConfig, vocabulary_size: int, labels: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, config.embedding, padding_idx=0)
        nn.init.uniform_(self.embedding.weight, -0.25, 0.25)
        self.gru = nn.GRU(config.embedding, config.hidden, batch_first=True, bidirectional=True)
        self.attention = nn.Linear(2 * config.hidden, config.attention)
        self.query = nn.Linear(config.attention, 1, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(2 * config.hidden, labels)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.gru(self.embedding(tokens))
        scores = self.query(torch.tanh(self.attention(states))).squeeze(2)
        weights = torch.softmax(scores.masked_fill(tokens == 0, float("-inf")), 1)
        return self.output(self.dropout(torch.einsum("bt,bth->bh", weights, states)))


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
    validation = inputs[validation_rows], targets[validation_rows]
    training, validating, scores = 0.0, 0.0, []
    for member in range(config.members):
        torch.manual_seed(member)
        network = build()
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        best, best_state = -1.0, None
        for _ in range(config.epochs):
            start = time.perf_counter()
            _train_epoch(network, optimizer, *train, config.batch_size)
            middle = time.perf_counter()
            f1 = _micro_f1(network, *validation, config.batch_size)
            if f1 > best:
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
        logits = network(inputs[rows])
        functional.binary_cross_entropy_with_logits(logits, targets[rows]).backward()
        optimizer.step()


@torch.no_grad()
def _micro_f1(network, inputs, targets, batch_size: int) -> float:
    network.eval()
    logits = torch.cat([network(batch) for batch in inputs.split(batch_size)])
    predicted, truth = logits > 0, targets > 0
    hits = (predicted & truth).sum()
    return float(2 * hits / (predicted.sum() + truth.sum()).clamp(min=1))
