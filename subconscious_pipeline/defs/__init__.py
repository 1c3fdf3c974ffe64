"""The Dagster shell. Thin: assets open a store, call the core, return what the UI should show."""

import warnings

from dagster import BetaWarning

# backfill_policy and freshness policies are what this project is built on; their beta notices would greet every command.
warnings.filterwarnings("ignore", category=BetaWarning)
