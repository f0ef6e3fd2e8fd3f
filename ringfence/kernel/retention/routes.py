"""How long things are kept, over HTTP."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from ringfence.kernel.database import Database, Transaction
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields
from ringfence.kernel.retention.service import Kept, Retention

Days = Annotated[float, Field(ge=0, le=36500)] | None


class RetentionBody(Fields):
    events_days: Days = Field(None, description="0: for ever; null: as the setting says.")
    messages_days: Days = Field(None, description="0: for ever; null: as the setting says.")


class RetentionView(TypedDict):
    events_days: float
    messages_days: float


def routes(database: Database, retention: Retention) -> Api:
    api = Api("system")

    def view(tx: Transaction) -> RetentionView:
        return {
            "events_days": retention.days(tx, Kept.EVENTS),
            "messages_days": retention.days(tx, Kept.MESSAGES),
        }

    @api.route("GET", "/api/v1/retention", access=Access.VIEW, answers=RetentionView)
    async def shown(call: Call[Fields, Fields]) -> RetentionView:
        """How many days events, and acknowledged messages, are kept; 0: for ever."""
        return await database.read(view)

    @api.route("PUT", "/api/v1/retention", access=Access.CONFIGURE, body=RetentionBody, answers=RetentionView)
    async def choose(call: Call[RetentionBody, Fields]) -> Answer:
        """Choose how long things are kept, from now on. What is left out stays as it is."""

        def use_case(tx: Transaction) -> RetentionView:
            for field, what in (("events_days", Kept.EVENTS), ("messages_days", Kept.MESSAGES)):
                if field in call.body.model_fields_set:
                    retention.choose(tx, call.principal, what, getattr(call.body, field))
            return view(tx)

        return await call.commit(use_case)

    return api
