"""The errors of the package: one type per boundary, so that a caller can tell what to mend.

Every message has the form ``want X; got Y``, with the line, index or name of the offender.
"""


class RubricNBError(Exception):
    """Base of every error that this package raises on purpose."""


class CreditError(RubricNBError, ValueError):
    """An argument of a credit rule or of a statistic has the wrong shape, range or sign."""


class FormatError(RubricNBError, ValueError):
    """A file, a line or a message is not in the format that its reader wants."""


class JudgeError(RubricNBError):
    """A judge could not be called, or may not be called further."""


class CallError(JudgeError):
    """One call got no usable answer (deadline, refusal, garbage); other calls may fare better."""


class QuotaError(JudgeError):
    """The endpoint says that the account's quota or credit is used up: no retry will help."""


class BudgetError(JudgeError):
    """The next call could exceed the budget that the user set, or a budget cannot be kept."""


class ReplayError(JudgeError):
    """A replayed run asks for a call that its recording does not hold."""


class WorldError(RubricNBError):
    """A world was asked for something that it does not have, or its engine failed."""


class ConfigError(RubricNBError, ValueError):
    """A setting is unknown, contradictory or out of range."""


class RunError(RubricNBError):
    """A run's folder, record or notebook does not hold what it promised."""
