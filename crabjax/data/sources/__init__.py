"""The paper's data sets: raw files to the common format."""

from crabjax.data.sources import eurlex, mimic, rcv1, uklex

SOURCES = {"rcv1": rcv1, "uklex": uklex, "eurlex": eurlex, "mimic": mimic}
