"""The dashboard's pages, as the package's build made them."""
