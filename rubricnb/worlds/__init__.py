"""Worlds that agents act in, and the offline judge of the bundled one. No torch, no plotly."""

from .base import Episode, Evaluation, StepResult, World, WorldTask
from .chat_log import write_chat_log
from .demonstrator import CLEAN, NOISY, Faults, demonstrate
from .desk import DESKS, MAX_TURNS, Desk, LibraryDesk, OrdersDesk, desk_of
from .desk_judge import LENIENT_NAME, NAME, DeskJudge, lenient_judge, offline_judge
from .desk_noise import EXACT, LENIENT, STRICT, JudgeNoise
from .engine import DeskEpisode, Noise, Turn
from .lexicon import LEXICONS, Lexicon, vocabulary
from .pools import POOLS, warm_up_tasks
from .registry import open_world
from .sample import SamplePair, sample_pair
from .templates import Pool
from .transcript import as_task, as_trajectory

__all__ = [
    "CLEAN",
    "DESKS",
    "EXACT",
    "LENIENT",
    "LENIENT_NAME",
    "LEXICONS",
    "MAX_TURNS",
    "NAME",
    "NOISY",
    "POOLS",
    "STRICT",
    "Desk",
    "DeskEpisode",
    "DeskJudge",
    "Episode",
    "Evaluation",
    "Faults",
    "JudgeNoise",
    "Lexicon",
    "LibraryDesk",
    "Noise",
    "OrdersDesk",
    "Pool",
    "SamplePair",
    "StepResult",
    "Turn",
    "World",
    "WorldTask",
    "as_task",
    "as_trajectory",
    "demonstrate",
    "desk_of",
    "lenient_judge",
    "offline_judge",
    "open_world",
    "sample_pair",
    "vocabulary",
    "warm_up_tasks",
    "write_chat_log",
]
