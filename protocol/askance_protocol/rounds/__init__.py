"""Rounds: what is published, what it means, and what may follow what."""

from askance_protocol.channels import BinarySpec, GeometricSpec, KarySpec, LaplaceSpec, TableSpec
from askance_protocol.rounds.answerable import LEAST_CHARGE, MOST_ROUNDS
from askance_protocol.rounds.bulletin import (
    Bulletin,
    Cause,
    Entry,
    Notice,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    StaleEntryError,
    StudyEnded,
    StudyPublished,
    read_entry,
)
from askance_protocol.rounds.hypothesis import LearnedHypothesis
from askance_protocol.rounds.lifecycle import (
    ENDED,
    CloseReason,
    EndState,
    RoundEvent,
    RoundState,
    StudyEvent,
    StudyState,
    round_after,
    study_after,
)
from askance_protocol.rounds.prepared import PreparedPart, PreparedRound, Question, prepare_round
from askance_protocol.rounds.spec import Cohort, Part, RoundSpec, StudySpec, read_round, read_study

__all__ = [
    "ENDED",
    "LEAST_CHARGE",
    "MOST_ROUNDS",
    "BinarySpec",
    "Bulletin",
    "Cause",
    "CloseReason",
    "Cohort",
    "EndState",
    "Entry",
    "GeometricSpec",
    "KarySpec",
    "LaplaceSpec",
    "LearnedHypothesis",
    "Notice",
    "Part",
    "PreparedPart",
    "PreparedRound",
    "Question",
    "RoundAnswered",
    "RoundClosed",
    "RoundEvent",
    "RoundPublished",
    "RoundSpec",
    "RoundState",
    "StaleEntryError",
    "StudyEnded",
    "StudyEvent",
    "StudyPublished",
    "StudySpec",
    "StudyState",
    "TableSpec",
    "prepare_round",
    "read_entry",
    "read_round",
    "read_study",
    "round_after",
    "study_after",
]
