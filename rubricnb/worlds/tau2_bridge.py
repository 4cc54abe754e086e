"""tau2-bench in a process of its own, as lines of JSON. Runs in the engine's own environment.

    python -P tau2_bridge.py DOMAIN < requests > answers

Requests are {"op": "tasks"}, {"op": "play", "task": id, ...} and, during a play, {"op": "turn",
"text": ..., "calls": [...]} or {"op": "stop"}. The engine's own orchestrator, user simulator,
environment and evaluator do all the work; only the agent's words come from outside. Imports
nothing of this project.
"""

import json
import os
import sys
from collections import deque

NAME = "rubricnb"
answers = sys.stdout


class Stopped(Exception):
    """The other side gave this play up."""


def answer(**fields):
    answers.write(json.dumps(fields, default=str) + "\n")


def request():
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    return json.loads(line)


def outside_agent():
    """Return the class of an agent whose turns come from the other side."""
    from tau2.agent.base_agent import HalfDuplexAgent
    from tau2.agent.llm_agent import LLMAgent
    from tau2.data_model.message import AssistantMessage, MultiToolMessage, ToolCall

    class Outside(HalfDuplexAgent):
        def get_init_state(self, message_history=None):
            engine_prompt = LLMAgent(self.tools, self.domain_policy, llm="none").system_prompt
            self.first = {"system": engine_prompt, "tools": [t.openai_schema for t in self.tools]}
            return {}

        def set_seed(self, seed):
            pass

        @classmethod
        def is_stop(cls, message):
            return False

        def generate_next_message(self, message, state):
            many = isinstance(message, MultiToolMessage)
            got = message.tool_messages if many else [message]
            rows = [
                {"role": m.role, "text": m.content or "", "id": getattr(m, "id", "")} for m in got
            ]
            answer(event="turn", got=rows, **self.first)
            self.first = {}
            given = request()
            if given["op"] != "turn":
                raise Stopped
            calls = [
                ToolCall(id=c["id"], name=c["name"], arguments=c["arguments"])
                for c in given.get("calls", ())
            ]
            text = given.get("text") or None
            return AssistantMessage(role="assistant", content=text, tool_calls=calls or None), state

    return Outside


def scripted_user():
    """Return the class of a user who says prepared things: for replaying known solutions.

    ``llm_args`` is {"script": [{"text": ..., "calls": [...]}, ...]}, one item a message; after the
    last the user ends the conversation.
    """
    from tau2.data_model.message import ToolCall, UserMessage
    from tau2.user.user_simulator import STOP, UserSimulator

    class Scripted(UserSimulator):
        def __init__(self, llm=None, instructions=None, tools=None, llm_args=None, **rest):
            super().__init__(llm="none", instructions=instructions, tools=tools, llm_args={})
            self.script = deque((llm_args or {}).get("script", ()))

        def _generate_next_message(self, message, state):
            item = self.script.popleft() if self.script else {"text": STOP}
            calls = [
                ToolCall(id=f"user_{i}", name=c["name"], arguments=c["arguments"], requestor="user")
                for i, c in enumerate(item.get("calls", ()))
            ]
            text = None if calls else item["text"]
            return UserMessage(role="user", content=text, tool_calls=calls or None)

    return Scripted


def play(domain, task, given):
    """Run one task and answer with the engine's verdict."""
    from tau2.data_model.simulation import TextRunConfig
    from tau2.runner.build import _build_env_kwargs, build_text_orchestrator
    from tau2.runner.simulation import run_simulation

    user = given["user"]
    config = TextRunConfig(
        domain=domain,
        agent=NAME,
        llm_agent="none",
        llm_args_agent={},
        user=f"{NAME}_script" if "script" in user else "user_simulator",
        llm_user=user.get("llm", "none"),
        llm_args_user={"script": user["script"]} if "script" in user else user.get("llm_args", {}),
        max_steps=given["max_steps"],
        **({"retrieval_config": given["retrieval"]} if given.get("retrieval") else {}),
    )
    orchestrator = build_text_orchestrator(config, task, seed=given.get("seed"))
    done = run_simulation(orchestrator, env_kwargs=_build_env_kwargs(config, task) or None)
    verdict = done.reward_info
    answer(
        event="end",
        reward=verdict.reward,
        breakdown={getattr(k, "value", k): v for k, v in (verdict.reward_breakdown or {}).items()},
        info=verdict.info,
        termination=getattr(done.termination_reason, "value", str(done.termination_reason)),
        user_cost=done.user_cost,
    )


def solution(task):
    """Return the calls of the task's reference solution, in order, with who makes each."""
    actions = (task.evaluation_criteria and task.evaluation_criteria.actions) or []
    return [
        {"name": a.name, "arguments": a.arguments, "by": getattr(a.requestor, "value", a.requestor)}
        for a in actions
    ]


def basis(task):
    """Return what the task is judged by: "DB", "ACTION", "NL_ASSERTION" (by an LLM), ..."""
    rows = (task.evaluation_criteria and task.evaluation_criteria.reward_basis) or []
    return [getattr(r, "value", str(r)) for r in rows]


def main(domain):
    """Serve requests until standard input ends."""
    global answers
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # whatever the engine prints is for the log
    from tau2.registry import registry

    agent = outside_agent()
    registry.register_agent_factory(
        lambda tools, domain_policy, **rest: agent(tools, domain_policy), NAME
    )
    registry.register_user(scripted_user(), f"{NAME}_script")
    tasks = {str(t.id): t for t in registry.get_tasks_loader(domain)()}
    answer(event="ready", tasks=len(tasks))
    while True:
        given = request()
        try:
            if given["op"] == "tasks":
                rows = [
                    {"id": id, "solution": solution(t), "basis": basis(t)}
                    for id, t in tasks.items()
                ]
                answer(event="tasks", tasks=rows)
            elif given["op"] == "play":
                play(domain, tasks[given["task"]], given)
        except Stopped:
            answer(event="stopped")
        except Exception as e:
            answer(event="error", text=f"{type(e).__name__}: {e}"[:2000])


if __name__ == "__main__":
    main(sys.argv[1])
