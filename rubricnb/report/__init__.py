"""A report to send: graded rollouts as one offline HTML file that searches, filters and links."""

from .build import Report, build, report_data, write

__all__ = ["Report", "build", "report_data", "write"]
