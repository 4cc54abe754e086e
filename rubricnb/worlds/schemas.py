"""A desk as an OpenAI function-calling world: tool schemas, system prompt, task in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import WorldTask
from .lexicon import ARGUMENTS, LEXICONS, OUTCOMES, Lexicon


def kinds_of(lexicon: Lexicon, role: str) -> dict[str, str]:
    """Parameter name in function calls -> argument kind, in the compact call's order."""
    names = {
        "person_id": f"{lexicon.person}_id",
        "thing_id": f"{lexicon.thing}_id",
        "bill_id": f"{lexicon.bill}_id",
        "day": "placed" if lexicon.name == "orders" else "taken",
    }
    return {names.get(kind, kind): kind for kind in ARGUMENTS[role]}


def _about(lexicon: Lexicon) -> Mapping[str, str]:
    p, t, b = lexicon.person, lexicon.thing, lexicon.bill
    return {
        "find": f"List every {p} with this first name: name, city, {p} id.",
        "person": f"Show one {p}: name, city, id and, where kept, the address.",
        "list": f"List the {t}s of one {p}: item, day it was made, {t} id.",
        "thing": f"Show one {t}: its state and its {lexicon.due} day.",
        "cancel": f"Set one {t} to {lexicon.closed}. A {lexicon.stuck} {t} is refused.",
        "move": f"Give one {t} another {lexicon.due} day.",
        "bill": f"Show the {b} of one {t}: item, {b} id, state.",
        "refund": f"Set one {b} to {lexicon.refunded}.",
        "address": f"Change the street that is kept for one {p}.",
        "note": f"Add one word to the notes kept for one {p}.",
        "notes": f"Show the notes kept for one {p}.",
        "finish": "End the work: done if everything asked for is in place, else blocked.",
    }


_MEANING = {
    "name": "first name, lower case",
    "city": "the city that the tools print beside the name",
    "person_id": "identifier, as the tools print it",
    "thing_id": "identifier, as the tools print it",
    "bill_id": "identifier, as the tools print it",
    "item": "the item's name",
    "day": "the day it was made, such as d4",
    "to": "the new day, such as d9",
    "street": "the new street",
    "word": "the word to add",
    "outcome": "done or blocked",
}


def tool_schemas(lexicon: Lexicon) -> list[dict[str, Any]]:
    """The desk's tools in OpenAI's function-calling form."""
    about = _about(lexicon)
    out = []
    for role, tool in lexicon.tools.items():
        properties: dict[str, Any] = {
            name: {"type": "string", "description": _MEANING[kind]}
            for name, kind in kinds_of(lexicon, role).items()
        }
        required = list(properties)
        if role == "finish":
            properties["outcome"]["enum"] = list(OUTCOMES)
            properties["message"] = {
                "type": "string",
                "description": "what was done and what was not, for the person who asked",
            }
        out.append(
            {
                "type": "function",
                "function": {
                    "name": tool,
                    "description": about[role],
                    "parameters": {
                        "type": "object",
                        "properties": properties,
                        "required": required,
                        "additionalProperties": False,
                    },
                },
            }
        )
    return out


def system_prompt(lexicon: Lexicon) -> str:
    """The rules of the desk, for an LLM agent and for whoever judges it."""
    p, t = lexicon.person, lexicon.thing
    return (
        f"You work at the {lexicon.name} desk and act through its tools. "
        f"Several people share a first name: the city tells which {p} is meant. "
        f"A {t} is named by its item, or as the latest one, the {t} with the highest day. "
        f"A {lexicon.stuck} {t} cannot be set to {lexicon.closed}: then do the rest of what was "
        "asked and finish with blocked. A change may fail with a timeout, and an acknowledged "
        "change may be lost: read back what you changed, and repeat it if it is not there. "
        "Change nothing that was not asked for. End with finish: done if everything asked for is "
        "in place, blocked if something could not be done."
    )


def chat_prompt(task: WorldTask) -> str:
    """The task in sentences, for an LLM; ``task.prompt`` says the same in compact words."""
    lex = LEXICONS[task.spec["desk"]]
    thing, parts = lex.thing, []
    for who in task.spec["goals"]:
        lines = []
        for g in who["goals"]:
            ref = f"the {g['ref']} {thing}" if g.get("ref") else ""
            verb = lex.tools[g["kind"]]
            lines.append(
                {
                    "cancel": f"{verb} {ref}",
                    "move": f"{verb} {ref} to {g.get('value')} ({lex.due} day)",
                    "refund": f"{verb} the {lex.bill} of {ref}",
                    "address": f"change the address to {g.get('value')}",
                    "note": f"add the note {g.get('value')!r}",
                }[g["kind"]]
            )
        person = f"{who['name'].capitalize()} from {who['city'].capitalize()}"
        parts.append(f"For {person}: " + "; ".join(lines) + ".")
    return " ".join(parts)
