"""The one MetaData that every room's tables join, so that migrations can be checked against all of them."""

import sqlalchemy as sa

metadata = sa.MetaData()
